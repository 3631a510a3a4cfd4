#include "model/elasticity.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "base/number.hpp"
#include "base/text.hpp"
#include "model/job.hpp"
#include "model/job_table.hpp"

namespace troupe::model {

result<std::vector<membership>> parse_memberships(std::string_view text) {
  constexpr std::size_t most = 10'000;
  constexpr std::uint64_t steps_max = 1'000'000'000'000;
  std::vector<membership> made;
  for (const auto part : split(text, ',')) {
    const auto colon = part.find(':');
    const auto step = parse_number<std::uint64_t>(part.substr(0, colon));
    const auto trainers =
        colon == std::string_view::npos ? std::nullopt : parse_number<std::uint64_t>(part.substr(colon + 1));
    if (!step || !trainers || made.size() == most)
      return bad_input("must be up to {} pairs STEP:TRAINERS with commas between them, such as 0:2,120:4", most);
    if (*step > steps_max) return bad_input("step {}: must be at most {}", *step, steps_max);
    if (*trainers == 0 || *trainers > actors_max)
      return bad_input("{} trainers from step {} on: must be between 1 and {}", *trainers, *step, actors_max);
    if (made.empty() ? *step != 0 : *step <= made.back().first_step)
      return bad_input("must begin with step 0, and go up from there: {} is out of order", *step);
    if (!made.empty() && *trainers == made.back().trainers)
      return bad_input("step {} changes nothing: the number of trainers is {} before it too", *step, *trainers);
    made.push_back({*step, static_cast<std::uint32_t>(*trainers)});
  }
  return made;
}

std::string to_string(const std::vector<membership>& memberships) {
  std::string text;
  for (const membership& one : memberships)
    text += fmt::format("{}{}:{}", text.empty() ? "" : ",", one.first_step, one.trainers);
  return text;
}

std::uint32_t trainers_at(const std::vector<membership>& memberships, std::uint64_t step) {
  const auto after = std::ranges::find_if(memberships, [step](const membership& one) { return one.first_step > step; });
  return std::prev(after)->trainers;
}

std::vector<membership> changed(std::vector<membership> memberships, std::uint64_t step, std::uint32_t trainers) {
  if (trainers_at(memberships, step) == trainers) return memberships;
  std::erase_if(memberships, [step](const membership& one) { return one.first_step >= step; });
  if (memberships.empty() || memberships.back().trainers != trainers) memberships.push_back({step, trainers});
  return memberships;
}

std::optional<std::uint64_t> next_change(const std::vector<membership>& memberships, std::uint64_t step) {
  const auto next = std::ranges::find_if(memberships, [step](const membership& one) { return one.first_step > step; });
  return next == memberships.end() ? std::nullopt : std::optional(next->first_step);
}

std::uint64_t samples_of_step(const job& what, std::uint32_t trainers) {
  const bool is_fixed = what.elastic.is_on() && what.elastic_batch == elastic_batch_kind::total;
  return std::uint64_t{is_fixed ? what.elastic.memberships.front().trainers : trainers} * what.batch_size;
}

std::uint64_t first_step_samples(const job& what) {
  return samples_of_step(what, what.elastic.is_on() ? what.elastic.memberships.front().trainers : what.trainers);
}

epoch_plan epochs_of(const job& what, std::uint64_t rows) {
  rows = std::max<std::uint64_t>(rows, 1);  // 0 rows are refused elsewhere
  std::vector<membership> memberships = what.elastic.memberships;
  if (!what.elastic.is_on()) memberships = {{0, what.trainers}};
  std::vector<epoch_plan::part> parts;
  parts.reserve(memberships.size());
  for (const membership& one : memberships)
    parts.push_back({one.first_step, one.trainers, std::min(rows, samples_of_step(what, one.trainers))});
  return {rows, parts};
}

std::size_t batch_of_trainer(const job& what) {
  return static_cast<std::size_t>((samples_of_step(what, what.trainers) + what.trainers - 1) / what.trainers);
}

optimizer_spec with_rates_of_members(optimizer_spec spec, const job& what) {
  if (!what.elastic.is_on() || what.elastic_lr == elastic_lr_rule::none) return spec;
  const double factor =
      static_cast<double>(samples_of_step(what, what.trainers)) / static_cast<double>(first_step_samples(what));
  spec.lr *= what.elastic_lr == elastic_lr_rule::linear ? factor : std::sqrt(factor);
  return spec;
}

std::optional<std::string> check_trainers(const job& what, std::uint32_t trainers) {
  if (!what.elastic.is_on())
    return fmt::format("the run has {} trainers to its end: only one with --elastic MIN:MAX can have others",
                       what.trainers);
  if (trainers < what.elastic.trainers_min || trainers > what.elastic.trainers_max)
    return fmt::format("must be between {} and {} (--elastic)", what.elastic.trainers_min, what.elastic.trainers_max);
  if (trainers > samples_of_step(what, trainers))
    return fmt::format("a step has {} samples, fewer than one for each; use a larger --batch-size",
                       samples_of_step(what, trainers));
  return std::nullopt;
}

}  // namespace troupe::model
