#include "model/checkpoint/resume.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/result.hpp"
#include "base/text.hpp"
#include "model/checkpoint/names.hpp"
#include "model/datasets.hpp"
#include "nn/layer_spec.hpp"

namespace troupe::model {

namespace {

std::string shown(const std::string& name, const std::string* value) {
  return value != nullptr ? fmt::format("--{} {}", name, printable(*value)) : fmt::format("no --{}", name);
}

/// Returns the first layer in which two networks differ, as the two halves of a difference.
std::pair<std::string, std::string> layers_that_differ(const std::string& saved, const std::string& now) {
  const auto before = nn::parse_layers(saved).value_or(std::vector<nn::layer_spec>());
  const auto after = nn::parse_layers(now).value_or(std::vector<nn::layer_spec>());
  const auto [in_before, in_after] = std::ranges::mismatch(before, after);
  const auto text = [](const auto& all, const auto& at) {
    constexpr std::size_t length = 200;
    return at == all.end() ? "none" : printable(nn::to_json({*at}), length);
  };
  return {fmt::format("--layers: layer {} is {}", in_after - after.begin(), text(after, in_after)),
          text(before, in_before)};
}

}  // namespace

const std::vector<std::string_view> settings_free_on_resume = {
    "servers",          "table-split", "epochs",   "steps",  "eval-every",      "bucket-mib",
    "matmul-precision", "pipeline",    "schedule", "stages", "tensor-parallel", "metrics"};

result<resume_point> newest_whole_checkpoint(const std::string& directory) {
  TROUPE_TRY(steps, checkpoint_steps(directory));
  const std::string shown_directory = printable_path(directory);
  resume_point from;
  // The faults of `from.torn`.
  std::vector<std::string> faults;
  bool some_gone = false;
  for (const std::uint64_t step : steps) {
    auto seen = inspect_checkpoint(directory, step, inspection_depth::bytes);
    if (!seen) {
      some_gone = true;
      continue;
    }
    if (seen->found.state == checkpoint_state::unreadable)
      return bad_input("checkpoint step {} in {} cannot be read: {}", step, shown_directory,
                       seen->found.faults.front());
    if (seen->found.state == checkpoint_state::torn) {
      from.torn.push_back(step);
      faults.push_back(seen->found.faults.front());
      continue;
    }
    from.what = std::move(*seen->what);
    for (std::size_t at = 0; at < faults.size(); ++at)
      from.warnings.push_back(fmt::format("checkpoint step {} in {} is torn ({}); falling back to step {}",
                                          from.torn[at], shown_directory, faults[at], step));
    return from;
  }
  // A run that saves here has removed a listed checkpoint, so it has committed a newer one.
  if (some_gone) return newest_whole_checkpoint(directory);
  if (faults.empty()) return tl::unexpected(no_checkpoint_in(directory));
  for (std::size_t at = 0; at < faults.size(); ++at) faults[at] = fmt::format("step {}: {}", from.torn[at], faults[at]);
  return bad_input("{}: no checkpoint is whole ({}); start anew, without --resume and in another folder",
                   shown_directory, fmt::join(faults, "; "));
}

std::optional<std::string> check_resumed(const checkpoint_manifest& from, const job& what, const dataset& data,
                                         std::uint64_t total_steps) {
  const std::uint64_t saved = from.step;
  if (from.data_digest != data.digest())
    return fmt::format(
        "--data {}: is not what it was: the rows differ from those that the checkpoint's run had read; bring them "
        "back, or start anew",
        what.data);
  if (saved > total_steps)
    return fmt::format(
        "--resume: the checkpoint is of step {}, and the job ends after {}; use more --epochs or --steps", saved,
        total_steps);
  if (saved < total_steps && saved % what.accumulate != 0)
    return fmt::format(
        "--resume: the checkpoint of step {} is of a run that ended within --accumulate {}: its last optimizer step "
        "had fewer batches, so it cannot continue; to continue from the checkpoint before it, remove {}",
        saved, what.accumulate, manifest_name(saved));
  return std::nullopt;
}

std::vector<setting> settings_with_files_of(const checkpoint_manifest& from, std::span<const setting> given) {
  std::vector<setting> all = from.settings;
  if (from.data_digest.empty()) return all;
  for (auto& [name, value] : all) {
    if (name != "data" && name != "test-file") continue;
    const std::string* now = value_of(given, name);
    const bool is_file_too = now != nullptr && !now->empty() && !value.empty();
    const bool is_same_format =
        is_file_too &&
        (name != "data" || (data_kind_of(*now) == data_kind_of(value) && data_name(*now) == data_name(value)));
    if (is_same_format) value = *now;
  }
  return all;
}

std::vector<rank_position> positions_of(const run_position& saved, std::uint32_t trainers) {
  if (saved.ranks.size() == trainers) return saved.ranks;
  std::vector<rank_position> ranks(trainers);
  for (const rank_position& one : saved.ranks) {
    ranks.front().loss_sum += one.loss_sum;
    ranks.front().samples += one.samples;
  }
  return ranks;
}

std::optional<std::string> first_differing(std::span<const setting> saved, std::span<const setting> now,
                                           std::span<const std::string_view> free) {
  const auto differs = [&](const setting& one) {
    if (std::ranges::find(free, one.first) != free.end()) return false;
    const std::string* before = value_of(saved, one.first);
    const std::string* after = value_of(now, one.first);
    return before == nullptr || after == nullptr || *before != *after;
  };
  for (const auto settings : {saved, now}) {
    const auto found = std::ranges::find_if(settings, differs);
    if (found != settings.end()) return found->first;
  }
  return std::nullopt;
}

std::optional<std::string> first_difference(std::span<const setting> saved, std::span<const setting> now,
                                            std::span<const std::string_view> free) {
  const auto name = first_differing(saved, now, free);
  if (!name) return std::nullopt;
  const std::string* before = value_of(saved, *name);
  const std::string* after = value_of(now, *name);
  std::pair difference{shown(*name, after), shown(*name, before)};
  if (*name == "layers" && before != nullptr && after != nullptr) difference = layers_that_differ(*before, *after);
  return fmt::format("{}: the run of the checkpoint has {}; continue with the same job, or start anew without --resume",
                     difference.first, difference.second);
}

}  // namespace troupe::model
