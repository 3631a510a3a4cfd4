#include "trace/analysis/training_order.hpp"

#include "base/number.hpp"
#include "trace/analysis/lookup.hpp"

namespace troupe::analysis {

namespace {

/// The text of a setting of the job; empty if it is not text.
std::string_view text_of(const boost::json::value& value) {
  return value.is_string() ? std::string_view(value.get_string()) : std::string_view();
}

std::optional<std::uint64_t> whole_number(const boost::json::value& value) {
  if (value.is_int64() && value.get_int64() >= 0) return static_cast<std::uint64_t>(value.get_int64());
  if (value.is_uint64()) return value.get_uint64();
  return parse_number<std::uint64_t>(text_of(value));
}

}  // namespace

std::optional<std::uint16_t> rank_in(std::string_view name, std::string_view role) {
  if (!name.starts_with(role) || !name.substr(role.size()).starts_with(' ')) return {};
  const auto rank = parse_number<std::uint64_t>(name.substr(role.size() + 1));
  return rank && *rank <= UINT16_MAX ? std::optional(static_cast<std::uint16_t>(*rank)) : std::nullopt;
}

training_order::training_order(const trace::recording& run) {
  for (const trace::actor_state& actor : run.actors)
    if (const auto rank = rank_in(actor.name, "trainer")) by_rank_[*rank] = actor.actor;
  // Without the master's process the job is unknown, and so is the staleness. The first node to join also has number 0.
  if (std::ranges::find(run.actors, "master", &trace::actor_state::name) == run.actors.end()) staleness_.reset();
  for (const trace::process_info& process : run.processes) {
    const boost::json::value* job = process.metadata.if_contains("job");
    if (job == nullptr || !job->is_object()) continue;
    if (const boost::json::value* consistency = job->get_object().if_contains("consistency")) {
      const std::string_view text = text_of(*consistency);
      if (text == "async")
        staleness_.reset();
      else if (text.starts_with("ssp:"))
        staleness_ = parse_number<std::uint64_t>(text.substr(4)).value_or(0);
    }
    if (const boost::json::value* accumulate = job->get_object().if_contains("accumulate"))
      accumulate_ = std::max<std::uint64_t>(1, whole_number(*accumulate).value_or(1));
    std::uint64_t parts = 1;
    for (const char* cut : {"pipeline", "tensor-parallel"})
      if (const boost::json::value* into = job->get_object().if_contains(cut))
        parts *= std::clamp<std::uint64_t>(whole_number(*into).value_or(1), 1, UINT16_MAX);
    parts_ = static_cast<std::uint16_t>(std::min<std::uint64_t>(parts, UINT16_MAX));
  }
  for (const auto& [rank, actor] : by_rank_)
    if (rank % parts_ == 0) trainers_.push_back(actor);
}

std::optional<std::uint16_t> training_order::trainer(std::uint16_t rank) const {
  const std::uint16_t* found = find_in(by_rank_, rank);
  return found == nullptr ? std::nullopt : std::optional(*found);
}

std::uint64_t training_order::lookahead() const {
  constexpr std::uint64_t under_way_max = 8;  // the most lookups that a trainer keeps under way
  return std::min(staleness_.value_or(under_way_max), under_way_max);
}

std::uint64_t training_order::needed(std::uint64_t step, std::uint64_t staleness) const {
  const std::uint64_t before = step == 0 ? 0 : optimizer_step(step) - 1;
  return (before - std::min(before, staleness)) * accumulate_;
}

}  // namespace troupe::analysis
