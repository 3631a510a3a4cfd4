#include "troupe/runtime/same_optimizers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>
#include <variant>

#include "troupe/error.hpp"
#include "troupe/runtime/communicator.hpp"
#include "troupe/runtime/place.hpp"
#include "troupe/runtime/replica.hpp"

namespace troupe::runtime {

namespace {

/// The limit of reports from a trainer that is ahead. More than any program makes.
constexpr std::size_t words_max = 1 << 12;

/// `trainer 0 takes optimizer step 3 (train.cpp:14) with WORDS`.
std::string optimizer_step_text(std::uint32_t rank, std::uint64_t step, const std::string& place,
                                const std::string& text) {
  return fmt::format("trainer {} takes optimizer step {}{} with {}", rank, step, in_brackets(place), text);
}

}  // namespace

void add_text(optimizer_text& to, const std::vector<trained>& members, const std::string& how) {
  for (const trained& one : members) {
    const auto* local = std::get_if<std::shared_ptr<replica>>(&one);
    if (local == nullptr || !(*local)->is_synchronized() || (*local)->group() != nullptr) continue;
    to.members.push_back(fmt::format("{} by {}", (*local)->description(), how));
  }
  std::ranges::sort(to.members);
  to.is_reported = false;
}

/// Sends only the first step with an optimizer; nothing if the trainer has sent the same text for another one, or if
/// the optimizer trains nothing that is shared.
void same_optimizers::share(optimizer_text& one, std::uint64_t step) {
  one.is_reported = true;
  if (one.members.empty()) return;
  last_ = fmt::format("{}", fmt::join(one.members, ", "));
  if (mine_.try_emplace(last_, first_use{step, communicator_.place()}).second)
    communicator_.share_optimizer(step, last_, text_of(communicator_.place()));
}

void same_optimizers::take(const msg::peer_optimizer& word) {
  if (theirs_.size() == words_max)
    throw error(error_kind::run, fmt::format("trainer {} makes too many optimizers", word.rank));
  theirs_.push_back(word);
  compare();
}

void same_optimizers::compare() {
  std::erase_if(theirs_, [this](const msg::peer_optimizer& one) {
    if (one.step > step_) return false;
    const auto mine = mine_.find(one.optimizer);
    if (mine != mine_.end() && mine->second.step == one.step) return true;
    const auto here = std::ranges::find(mine_, one.step, [](const auto& known) { return known.second.step; });
    const std::string own =
        here == mine_.end()
            ? optimizer_step_text(communicator_.rank(), one.step, "", last_.empty() ? "none that others share" : last_)
            : optimizer_step_text(communicator_.rank(), one.step, text_of(here->second.at), here->first);
    throw error(error_kind::input, fmt::format("{}; {}; all trainers take each step with the same optimizer", own,
                                               optimizer_step_text(one.rank, one.step, one.place, one.optimizer)));
  });
}

}  // namespace troupe::runtime
