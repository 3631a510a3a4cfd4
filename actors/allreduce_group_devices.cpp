// What the allreduce group does where its trainers compute on CUDA devices.

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <thread>
#include <utility>

#include "actors/allreduce_group.hpp"
#include "actors/device_tensor.hpp"
#include "base/host.hpp"
#include "protocol/errors.hpp"
#include "protocol/messages.hpp"

namespace troupe {

namespace {

/// For an allreduce on devices where nothing else is said.
constexpr std::chrono::seconds device_patience{300};

/// How long to look again and again for a launch to be taken in, before others have a turn.
constexpr std::chrono::microseconds moment{200};

/// This host as NCCL tells hosts apart, which a user may override.
std::string own_host() {
  if (const char* given = std::getenv("NCCL_HOSTID")) return given;
  return host_name();
}

}  // namespace

/// Whoever still waits on a device for the others would wait for ever.
allreduce_group_state::~allreduce_group_state() {
  if (!reduction_) return;
  try {
    forget_what_is_over();
    if (front_is_launched_ || !launched_.empty() || reduction_->poll() == kernels::communicator::state::failed)
      reduction_->abandon();
  } catch (const kernels::device_error&) {
    reduction_->abandon();
  }
}

void allreduce_group_state::use_devices(const compute_devices& devices) {
  std::vector<std::uint32_t> ranks;
  for (std::uint32_t rank = 0; rank < trainers(); ++rank)
    if (is_local(rank)) ranks.push_back(rank);
  reduction_ = std::make_unique<device_reduction>(devices, ranks);
  introduced_.resize(processes());
  introduced_[layout_.me] = {{}, layout_.me, own_host(), reduction_->uuids(), {}};
  if (layout_.patience.count() == 0) layout_.patience = device_patience;
  if (processes() == 1) connect_devices();
}

/// The trainers of a process, for people.
std::string allreduce_group_state::trainers_of(std::uint32_t process) const {
  std::vector<std::size_t> ranks;
  for (std::size_t rank = 0; rank < layout_.process_of_rank.size(); ++rank)
    if (layout_.process_of_rank[rank] == process) ranks.push_back(rank);
  return fmt::format("trainer{} {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "));
}

/// Tells the other groups what this one's ranks are on: once, and when all processes are surely connected.
void allreduce_group_state::introduce_devices() {
  if (!introduced_[layout_.me].id.empty()) return;
  const kernels::communicator_id id = layout_.me == 0 ? device_reduction::make_id() : kernels::communicator_id();
  introduced_[layout_.me].id = blob::own(id);
  for (std::uint32_t process = 0; process < processes(); ++process) {
    if (process == layout_.me) continue;
    group_devices mine = introduced_[layout_.me];
    mine.head = trace.next(step, {});
    self_->send(layout_.groups[process], std::move(mine));
  }
  connect_devices();
}

caf::result<void> allreduce_group_state::handle(const group_devices& theirs) {
  if (theirs.head.run != run_ || theirs.process >= processes() || theirs.process == layout_.me ||
      !may_come_from(theirs.process) || theirs.id.size() != sizeof(kernels::communicator_id))
    return refuse(theirs.head.step,
                  make_failure(errc::wrong_context,
                               fmt::format("devices of process {}, which does not take part", theirs.process)));
  if (!reduction_)
    return refuse(
        theirs.head.step,
        make_failure(errc::bad_input, fmt::format("{} on CUDA devices and {} on the processor do not mix; give all of "
                                                  "them the same --device",
                                                  trainers_of(theirs.process), trainers_of(layout_.me))));
  if (!introduced_[theirs.process].id.empty())
    return refuse(theirs.head.step,
                  make_failure(errc::wrong_context, fmt::format("devices of process {} twice", theirs.process)));
  introduced_[theirs.process] = theirs;
  connect_devices();
  return {};
}

/// Connects the devices of all processes as soon as all of them, this one too, have been introduced. They add up in the
/// order of their trainers' ranks, not of the processes, which is that in which they happened to join.
void allreduce_group_state::connect_devices() {
  const auto first_rank = [this](std::uint32_t process) {
    return std::ranges::find(layout_.process_of_rank, process) - layout_.process_of_rank.begin();
  };
  std::size_t first = 0;
  std::size_t all = 0;
  std::map<std::pair<std::string, std::string>, std::uint32_t> process_of;
  for (std::uint32_t process = 0; process < processes(); ++process) {
    const group_devices& its = introduced_[process];
    if (processes() > 1 && its.id.empty()) return;
    if (first_rank(process) < first_rank(layout_.me)) first += its.uuids.size();
    all += its.uuids.size();
    for (const std::string& uuid : its.uuids) {
      const auto [known, is_new] = process_of.try_emplace({its.host, uuid}, process);
      if (is_new) continue;
      refuse(step, make_failure(errc::bad_input,
                                fmt::format("{} and {}, of two processes on {}, compute on the same CUDA device, {}, "
                                            "which NCCL does not take; give each process devices of its own "
                                            "(--devices), put the trainers into one process, or use --device cpu",
                                            trainers_of(known->second), trainers_of(process), its.host, uuid)));
      return;
    }
  }
  kernels::communicator_id id{};
  if (processes() > 1)
    std::copy_n(introduced_[0].id.data(), id.size(), id.begin());
  else if (all > 1)
    id = device_reduction::make_id();
  reduction_->connect(id, first, all);
  launch_ready();
}

/// Launches what every rank's share is there of, in an order that all processes share: each rank sends its buckets in
/// the same one.
void allreduce_group_state::launch_ready() {
  using state = kernels::communicator::state;
  while (!ready_.empty()) {
    const key which = ready_.front();
    const state now = reduction_->poll();
    if (now == state::failed) {
      refuse(which.first, make_failure(errc::peer_failed, reduction_->error()));
      return;
    }
    if (now == state::busy) {
      // What is launched has mostly been taken in a moment; connections take longer.
      if (front_is_launched_ && std::chrono::steady_clock::now() - last_launch_ < moment) {
        std::this_thread::yield();
        continue;
      }
      constexpr std::chrono::milliseconds again{1};
      if (std::exchange(will_look_again_, true)) return;
      self_->run_delayed(again, [this] {
        will_look_again_ = false;
        launch_ready();
      });
      return;
    }
    const std::vector<device_reduction::share> shares = local_shares(open_.at(which));
    if (!std::exchange(front_is_launched_, true)) {
      const actor_trace::range working(trace, trace::range_name::sum, which.first);
      reduction_->launch(which.second, shares, open_.at(which).count);
      last_launch_ = std::chrono::steady_clock::now();
      continue;
    }
    front_is_launched_ = false;
    ready_.pop_front();
    answer_from_devices(which, open_.at(which), shares);
  }
}

std::vector<device_reduction::share> allreduce_group_state::local_shares(const collection& all) const {
  std::vector<device_reduction::share> shares;
  for (std::uint32_t rank = 0; rank < trainers(); ++rank)
    if (is_local(rank)) shares.push_back({rank, &all.ranks[rank].grad, all.ranks[rank].batches > 0});
  return shares;
}

void allreduce_group_state::answer_from_devices(const key& which, collection& all,
                                                const std::vector<device_reduction::share>& shares) {
  std::uint64_t batches = 0;
  for (const share_of_rank& share : all.ranks) batches += share.batches;
  const float scale = batches > 0 ? 1.0F / static_cast<float>(batches) : 1.0F;
  launched_.push_back({which, std::chrono::steady_clock::now(), reduction_->means(which.second, shares, scale)});
  const std::vector<tensor>& means = launched_.back().means;
  finish(which, all, [&](std::uint32_t rank) -> const tensor& {
    const auto place = std::ranges::find(shares, rank, &device_reduction::share::rank) - shares.begin();
    return means[static_cast<std::size_t>(place)];
  });
  // Nothing but the deadline asks for those that are over.
  constexpr std::size_t many = 256;
  if (launched_.size() > many) forget_what_is_over();
}

/// The ranks of other processes, for people.
std::string allreduce_group_state::ranks_of_others() const {
  std::vector<std::uint32_t> ranks;
  for (std::uint32_t rank = 0; rank < trainers(); ++rank)
    if (!is_local(rank)) ranks.push_back(rank);
  return fmt::format("{}", fmt::join(ranks, ", "));
}

void allreduce_group_state::forget_what_is_over() {
  const auto is_over = [](const launched& one) {
    return std::ranges::all_of(one.means, [](const tensor& mean) { return block_of(mean.bytes)->written().is_over(); });
  };
  while (!launched_.empty() && is_over(launched_.front())) launched_.pop_front();
}

/// Ends the run for an allreduce that everybody has launched and that does not end, or for a communicator that has
/// failed meanwhile.
void allreduce_group_state::look_for_late_devices() {
  forget_what_is_over();
  const bool failed = reduction_->poll() == kernels::communicator::state::failed;
  const auto now = std::chrono::steady_clock::now();
  if (!failed && (launched_.empty() || now - launched_.front().begin < layout_.patience)) return;
  const key which = launched_.empty() ? key(step, 0) : launched_.front().which;
  const std::string what = failed ? reduction_->error()
                                  : fmt::format("bucket {} has been on the devices for {} s{}", which.second,
                                                static_cast<double>(layout_.patience.count()) / 1000,
                                                processes() > 1 ? "; --request-timeout allows more" : "");
  const std::string others = ranks_of_others();
  refuse(which.first,
         make_failure(errc::timeout,
                      others.empty() ? what : fmt::format("{} (the other ranks are the trainers {})", what, others)));
}

}  // namespace troupe
