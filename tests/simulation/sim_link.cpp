#include "tests/simulation/sim_link.hpp"

#include <cstring>
#include <new>
#include <utility>

namespace troupe::simulation {
namespace {

/// Returns memory for a frame, aligned like that of a link.
std::shared_ptr<std::byte> frame_memory(std::size_t size) {
  constexpr std::align_val_t alignment{64};
  auto* const made = static_cast<std::byte*>(::operator new(size + 1, alignment));
  return {made, [](std::byte* one) { ::operator delete (one, std::align_val_t{64}); }};
}

}  // namespace

// -- an end -------------------------------------------------------------------------------

void sim_link::start(callbacks what) {
  TROUPE_ASSERT(!is_started_);
  calls_ = std::move(what);
  is_started_ = true;
  // Never calls back within this call.
  whole_.events_.after(sim_duration(0), &home_, event_tag::arrival, [this] {
    for (auto& one : std::exchange(whole_.to_[side_].arrived, {})) whole_.give(side_, std::move(one));
  });
}

void sim_link::send(std::uint8_t kind, std::vector<links::piece> body, bool /*more_follows*/) {
  if (is_over_ || home_.is_dead()) return;
  std::size_t size = 0;
  for (const links::piece& one : body) size += one.size;
  const auto memory = frame_memory(size);
  std::size_t at = 0;
  for (const links::piece& one : body) {
    if (one.size > 0) std::memcpy(memory.get() + at, one.data, one.size);
    at += one.size;
  }
  whole_.push(1 - side_, {links::received_frame{kind, memory, size}, {}}, sim_duration(0));
}

void sim_link::close() {
  if (std::exchange(is_over_, true) || home_.is_dead()) return;
  whole_.push(1 - side_, {}, sim_duration(0));
}

// -- between the ends ---------------------------------------------------------------------

void sim_connection::push(std::size_t to, item what, sim_duration time) {
  direction& way = to_[to];
  if (way.is_cut && !what.lost) return;
  if (events_.now() < slow_until_) time += slower_by_;
  way.last = std::max(way.last + sim_duration(1), events_.now() + time + events_.draw(network_.least, network_.most));
  way.under_way.push_back(std::move(what));
  events_.at(way.last, &ends_[to]->home(), event_tag::arrival, [this, to] { arrive(to); });
}

void sim_connection::arrive(std::size_t to) {
  direction& way = to_[to];
  if (way.under_way.empty()) return;  // the item was lost
  item next = std::move(way.under_way.front());
  way.under_way.pop_front();
  if (ends_[to]->is_started_ && way.arrived.empty())
    give(to, std::move(next));
  else
    way.arrived.push_back(std::move(next));
}

void sim_connection::give(std::size_t to, item what) {
  const std::shared_ptr<sim_link> end = ends_[to];
  if (end->is_over_) {
    if (what.frame && closed_[to]) closed_[to](std::move(*what.frame));
    return;
  }
  if (what.frame) return end->calls_.on_frame(std::move(*what.frame));
  end->is_over_ = true;
  const fault why{fault_kind::lost, what.lost.value_or("")};
  end->calls_.on_end(what.lost ? &why : nullptr);
}

// -- faults -------------------------------------------------------------------------------

sim_duration sim_connection::silence() {
  const sim_duration all = network_.dead_after;
  return events_.draw(all * 4 / 5, all);
}

void sim_connection::end_by_silence(std::size_t to) { push(to, {{}, "it has been silent for too long"}, silence()); }

void sim_connection::cut(model::random_sequence& random) {
  for (std::size_t to : {0, 1}) {
    direction& way = to_[to];
    if (std::exchange(way.is_cut, true)) continue;
    way.under_way.resize(random.below(way.under_way.size() + 1));
    if (!ends_[to]->is_over_) end_by_silence(to);
  }
}

void sim_connection::lost(const event_owner& gone, bool at_once, model::random_sequence& random) {
  const std::size_t to = &ends_[0]->home() == &gone ? 1 : 0;
  ends_[1 - to]->is_over_ = true;
  direction& way = to_[to];
  if (std::exchange(way.is_cut, true) || ends_[to]->is_over_) return;
  way.under_way.resize(random.below(way.under_way.size() + 1));
  if (at_once)
    push(to, {{}, "the connection was reset"}, sim_duration(0));
  else
    end_by_silence(to);
}

void sim_connection::falls_silent(const event_owner& quiet, std::function<bool()> still) {
  const std::size_t to = &ends_[0]->home() == &quiet ? 1 : 0;
  if (ends_[to]->is_over_) return;
  events_.after(silence(), &ends_[to]->home(), event_tag::silence, [this, to, still = std::move(still)] {
    if (!still() || ends_[to]->is_over_ || !ends_[to]->is_started_) return;
    ends_[to]->is_over_ = true;
    const fault why{fault_kind::lost, "it has been silent for too long"};
    ends_[to]->calls_.on_end(&why);
    push(1 - to, {{}, "the connection was reset"}, sim_duration(0));
  });
}

}  // namespace troupe::simulation
