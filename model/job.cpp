#include "model/job.hpp"

#include <fmt/format.h>

#include "base/text.hpp"
#include "model/files/idx.hpp"
#include "model/job_table.hpp"
#include "nn/own_data.hpp"

namespace troupe::model {

namespace {

std::size_t index_of(data_kind kind) { return static_cast<std::size_t>(kind); }

std::string with_value(const std::string& name, const std::string& text) {
  return fmt::format("--{} {}", name, printable(text));
}

std::string not_applicable(const job_setting& setting, const std::string& text, const job& of) {
  std::vector<std::string> owners;
  for (std::size_t i = 0; i < listed_data_kinds; ++i)
    if (setting.defaults[i] != nullptr) owners.push_back(data_names()[i]);
  return fmt::format("{}: {} has no such setting; leave it out, or use it with --data {}",
                     with_value(setting.name, text), data_name(of.data), alternatives(owners));
}

std::optional<std::string> check_names(const std::vector<setting>& given) {
  for (const auto& [name, text] : given) {
    if (std::ranges::find(job_table(), name, &job_setting::name) != job_table().end()) continue;
    return fmt::format("--{}: unknown setting; the nearest is --{}", printable(name),
                       nearest(name, names_in(job_table(), &job_setting::name)));
  }
  return std::nullopt;
}

// Returns the last text given for a setting, so that the command line overrides a job file.
const std::string* last_given(const std::vector<setting>& given, const std::string& name) {
  const auto found = std::find_if(given.rbegin(), given.rend(), [&](const setting& one) { return one.first == name; });
  return found == given.rend() ? nullptr : &found->second;
}

// Completes an elastic job besides its range: it begins with the first of its memberships.
std::optional<std::string> complete_elastic(job& made, const std::vector<setting>& given) {
  if (!made.elastic.is_on()) {
    for (const char* name : {"elastic-batch", "elastic-lr", "memberships"})
      if (const std::string* text = last_given(given, name))
        return fmt::format("{}: is for jobs with --elastic MIN:MAX", with_value(name, *text));
    return std::nullopt;
  }
  auto& memberships = made.elastic.memberships;
  if (memberships.empty()) memberships = {{0, made.trainers}};
  if (last_given(given, "trainers") == nullptr) made.trainers = memberships.front().trainers;
  return std::nullopt;
}

// Completes a job with overlapping steps: tables' rows are as old as the first stage's weights.
std::optional<std::string> complete_stream(job& made, const std::vector<setting>& given) {
  const std::uint32_t staleness = made.pipeline - 1;
  if (const std::string* text = last_given(given, "consistency"); text != nullptr && made.staleness != staleness)
    return fmt::format(
        "{}: with --schedule pipedream and {} stages, rows lack up to {} optimizer steps (ssp:{}); leave "
        "it out",
        with_value("consistency", *text), made.pipeline, staleness, staleness);
  made.staleness = staleness;
  return std::nullopt;
}

// Completes a job with a pipeline: its micro-batches, one for each stage if not given; or what its schedule requires.
std::optional<std::string> complete_pipeline(job& made, const std::vector<setting>& given) {
  if (made.streams()) return complete_stream(made, given);
  if (made.pipeline > 1) {
    if (last_given(given, "micro-batches") == nullptr) made.micro_batches = made.pipeline;
    return std::nullopt;
  }
  for (const char* name : {"schedule", "stages"})
    if (const std::string* text = last_given(given, name))
      return fmt::format("{}: is for jobs with --pipeline P of two stages or more; leave it out",
                         with_value(name, *text));
  return std::nullopt;
}

bool is_added(std::string_view data_set) {
  const auto added = nn::added_data();
  return std::ranges::find(added, data_set, &nn::named_data::name) != added.end();
}

}  // namespace

const std::array<std::string, data_kinds - 1>& data_names() {
  static const std::array<std::string, data_kinds - 1> names{"adult", "tutorial", "synthetic", "criteo",
                                                             "csv",   "mnist",    "idx",       "replay"};
  return names;
}

std::optional<data_kind> data_kind_of(std::string_view data) {
  const auto name = data_name(data);
  const auto known = std::ranges::find(data_names(), name);
  const bool has_argument = data.size() > name.size() + 1;
  if (known == data_names().end())
    return is_added(name) && (name == data || has_argument) ? std::optional(data_kind::own) : std::nullopt;
  const auto kind = static_cast<data_kind>(known - data_names().begin());
  const bool may_be_alone = kind < data_kind::criteo || kind == data_kind::mnist;
  const bool fits = name == data ? may_be_alone : kind >= data_kind::criteo && has_argument;
  return fits ? std::optional(kind) : std::nullopt;
}

result<std::string> read_data(std::string_view text) {
  const auto name = data_name(text);
  const auto kind = data_kind_of(text);
  if (name == "idx" && (!kind || !image_files_of(text.substr(idx_prefix.size()))))
    return bad_input("must name two files with a comma between them: idx:IMAGES,LABELS");
  if (kind) return std::string(text);
  if (name == "criteo" || name == "csv" || name == "replay") return bad_input("must name a file: {}:FILE", name);
  if (name == "mnist") return bad_input("must name a folder, mnist:DIR, or be mnist alone");
  if (is_added(name)) return bad_input("must have an argument, {0}:ARGUMENT, or be {0} alone", name);
  std::vector<std::string> known(data_names().begin(), data_names().begin() + listed_data_kinds);
  const auto added = names_in(nn::added_data(), &nn::named_data::name);
  known.insert(known.end(), added.begin(), added.end());
  return bad_input(
      "unknown data set; the nearest is {}, and there are adult, tutorial, synthetic, criteo:FILE, csv:FILE, "
      "mnist[:DIR] and idx:IMAGES,LABELS{}",
      nearest(std::string(name), known),
      added.empty() ? "" : fmt::format("; the program has added {}", fmt::join(added, ", ")));
}

const std::vector<setting_info>& job_settings() {
  static const std::vector<setting_info> infos(job_table().begin(), job_table().end());
  return infos;
}

std::string parts_option(const job& what) {
  return what.pipeline > 1 ? fmt::format("--pipeline {}", what.pipeline)
                           : fmt::format("--tensor-parallel {}", what.tensor_parallel);
}

result<job> parse_job(const std::vector<setting>& given) {
  if (auto wrong = check_names(given)) return bad_input(std::move(*wrong));
  job made;
  std::optional<data_kind> kind;
  // `data` is first in the table, because it determines the defaults of the others.
  for (const auto& one : job_table()) {
    const char* by_default = one.defaults[kind ? index_of(*kind) : 0];
    const std::string* text = last_given(given, one.name);
    if (by_default == nullptr) {
      if (text != nullptr) return bad_input(not_applicable(one, *text, made));
      continue;
    }
    if (text == nullptr && by_default == std::string_view(no_default)) continue;
    const std::string value = text != nullptr ? current_spelling(one.name, *text) : by_default;
    if (auto wrong = one.read(made, value))
      return bad_input("{}: {}", with_value(one.name, text != nullptr ? *text : value), *wrong);
    if (!kind) kind = data_kind_of(made.data);
  }
  if (const std::string* hidden = last_given(given, "hidden"); hidden != nullptr && !made.layers.empty())
    return bad_input("{}: the job has --layers, which replace it; leave one of them out",
                     with_value("hidden", *hidden));
  if (auto wrong = complete_elastic(made, given)) return bad_input(std::move(*wrong));
  if (auto wrong = complete_pipeline(made, given)) return bad_input(std::move(*wrong));
  complete_job(made, *kind);
  if (auto wrong = check_job(made, *kind)) return bad_input(std::move(*wrong));
  return made;
}

std::vector<setting> to_settings(const job& job) {
  std::vector<setting> written;
  const auto kind = data_kind_of(job.data);
  for (const auto& one : job_table()) {
    if (!kind || one.defaults[index_of(*kind)] == nullptr) continue;
    if (auto text = one.write(job)) written.emplace_back(one.name, std::move(*text));
  }
  return written;
}

result<std::shared_ptr<const job>> shared_job(const std::vector<setting>& settings, const job* known) {
  static shared_while_held<std::vector<setting>, job> shared;
  return shared.get(settings, [&] { return known != nullptr ? *known : parse_job(settings); });
}

}  // namespace troupe::model
