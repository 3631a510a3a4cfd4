#include "apps/train_options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <thread>
#include <utility>

#include "actors/common/device_advice.hpp"
#include "apps/print_network.hpp"
#include "base/number.hpp"
#include "base/result.hpp"
#include "base/text.hpp"
#include "cluster/launch/attempt.hpp"
#include "cluster/launch/network_options.hpp"
#include "cluster/launch/option_table.hpp"
#include "cluster/launch/restarts.hpp"
#include "model/checkpoint/inspect.hpp"
#include "model/hybrid.hpp"

namespace troupe::apps {
namespace {

/// Returns all settings of a job file, in the order of a printed one.
std::vector<model::setting_info> known_settings() {
  std::vector<model::setting_info> known = model::job_settings();
  std::ranges::move(run_settings(), std::back_inserter(known));
  return known;
}

/// Returns the given settings among `infos`: those of the command line, else of the file.
std::vector<model::setting> given_settings(const CLI::App& app, const model::job_file& file,
                                           const std::vector<model::setting_info>& infos) {
  std::vector<model::setting> given;
  for (const model::setting_info& info : infos) {
    if (auto text = given_text(app, info.name)) {
      const bool is_left_out = text->empty() && info.value_name.starts_with('[');
      given.emplace_back(info.name, is_left_out ? "0" : std::move(*text));
      continue;
    }
    for (const auto& entry : file.entries)
      if (entry.given.first == info.name) given.push_back(entry.given);
  }
  return given;
}

/// Whether a setting of a job file or checkpoint belongs to a splitting that given settings replace. `text_of(name)`: a
/// given setting's text, if it is given.
template <class Given>
bool is_of_other_splitting(std::string_view name, Given text_of) {
  if (name == "schedule") return text_of("pipeline") == "1";
  return name == "stages" && (text_of("pipeline") || text_of("tensor-parallel"));
}

/// Reads the job file without the settings that the command line overrides.
result<model::job_file> read_file(const CLI::App& app) {
  const CLI::Option* path = app.get_option("JOB.toml");
  if (path->count() == 0) return model::job_file();
  auto file = model::read_job_file(path->results().front(), known_settings());
  // The file's settings of devices belong to its own `device`. The file's steps would override the given epochs.
  const bool has_device = given_text(app, "device").has_value();
  const bool has_epochs = given_text(app, "epochs").has_value();
  const auto is_void = [&](const auto& entry) {
    const std::string& name = entry.given.first;
    return given_text(app, name) || (has_device && (name == "devices" || name == "server-device")) ||
           (has_epochs && name == "steps") ||
           is_of_other_splitting(name, [&](const char* other) { return given_text(app, other); });
  };
  if (file) std::erase_if(file->entries, is_void);
  return file;
}

/// Returns how a given setting differs from the saved one; null: it is not given, or does not differ.
std::optional<std::string> difference_in(const char* name, const std::vector<model::setting>& saved,
                                         const std::vector<model::setting>& given) {
  const auto those_named = [name](std::vector<model::setting> all) {
    std::erase_if(all, [name](const model::setting& one) { return one.first != name; });
    return all;
  };
  if (model::value_of(given, name) == nullptr) return std::nullopt;
  return model::first_difference(those_named(saved), those_named(given), {});
}

/// If steps overlap, the weights depend on the splitting: no other one may be given. Returns what differs.
std::optional<std::string> other_overlap(const model::job& saved, const std::vector<model::setting>& given) {
  const std::string* asked = model::value_of(given, "schedule");
  if (!saved.streams() && (asked == nullptr || *asked != "pipedream")) return std::nullopt;
  const auto had = model::to_settings(saved);
  for (const char* name : {"schedule", "pipeline", "stages"})
    if (auto differs = difference_in(name, had, given)) return differs;
  return std::nullopt;
}

/// Returns the settings of a resumed run: the checkpoint's, overridden by the given ones.
result<std::vector<model::setting>> resumed_settings(const std::vector<model::setting>& saved, bool overlaps,
                                                     const std::vector<model::setting>& given) {
  const auto text_of = [&](std::string_view name) {
    const std::string* text = model::value_of(given, name);
    return text == nullptr ? std::nullopt : std::optional(*text);
  };
  const auto is_given = [&](std::string_view name) { return model::value_of(given, name) != nullptr; };
  // Another data set also changes other settings: report it first.
  if (auto differs = difference_in("data", saved, given)) return bad_input(std::move(*differs));
  std::vector<model::setting> all = saved;
  // Saved steps would override the given epochs.
  if (is_given("epochs") && !is_given("steps"))
    std::erase_if(all, [](const model::setting& one) { return one.first == "steps"; });
  // These exclude each other, so the saved one would be refused beside the given one.
  for (const auto& [chosen, other] : {std::pair("layers", "hidden"), std::pair("hidden", "layers")})
    if (is_given(chosen) && !is_given(other))
      std::erase_if(all, [name = other](const model::setting& one) { return one.first == name; });
  if (!overlaps)
    std::erase_if(all, [&](const model::setting& one) { return is_of_other_splitting(one.first, text_of); });
  all.insert(all.end(), given.begin(), given.end());
  return all;
}

void put(std::vector<model::setting>& settings, const char* name, std::string text) {
  std::erase_if(settings, [&](const model::setting& one) { return one.first == name; });
  settings.emplace_back(name, std::move(text));
}

/// Returns the memberships that the previous attempt has left; empty: there was none, or the run is not elastic.
std::string remembered_memberships() {
  const attempt* mine = attempt::mine();
  return mine == nullptr ? std::string() : mine->remembered(memberships_name);
}

/// Returns the memberships of an elastic run that continues after `step` steps of the job `before`. Later attempts use
/// those that the previous one has left.
result<std::vector<model::membership>> resumed_memberships(const model::job& before, std::uint64_t step,
                                                           const std::vector<model::setting>& given) {
  using all = std::vector<model::membership>;
  if (const std::string text = remembered_memberships(); !text.empty()) return model::parse_memberships(text);
  const all saved = before.elastic.is_on() ? before.elastic.memberships : all{{0, before.trainers}};
  all wanted = saved;
  const auto had = [step](all from) {
    std::erase_if(from, [step](const model::membership& one) { return one.first_step >= step; });
    return from;
  };
  if (const auto* list = model::value_of(given, "memberships")) {
    TROUPE_SET(wanted, model::parse_memberships(*list));
    if (had(wanted) != had(saved))
      return bad_input(
          "--memberships {}: the run of the checkpoint had others before step {}: {}; leave --memberships out to "
          "continue with those",
          printable(*list), step, model::to_string(saved));
  }
  const auto* trainers = model::value_of(given, "trainers");
  const auto number = trainers == nullptr ? std::nullopt : parse_number<std::uint32_t>(*trainers);
  if (!number || *number == 0 || *number == model::trainers_at(wanted, step)) return wanted;
  const bool has_list = model::value_of(given, "memberships") != nullptr;
  if (has_list && *number == wanted.front().trainers) return wanted;  // the run began with this command line
  if (has_list)
    return bad_input("--trainers {}: --memberships has {} in step {}; leave one of them out", *number,
                     model::trainers_at(wanted, step), step);
  return model::changed(std::move(wanted), step, *number);
}

/// Reads the job of a new run. Later attempts at an elastic one begin with the memberships that the previous one has
/// left.
result<model::job> new_job(std::vector<model::setting> given) {
  if (std::string text = remembered_memberships(); !text.empty()) {
    std::erase_if(given, [](const model::setting& one) { return one.first == "trainers"; });
    put(given, "memberships", std::move(text));
  }
  TROUPE_TRY(made, model::parse_job(given));
  if (made.elastic.is_on() && made.trainers != made.elastic.memberships.front().trainers)
    return bad_input("--trainers {}: --memberships begins with {}; leave one of them out", made.trainers,
                     made.elastic.memberships.front().trainers);
  return made;
}

/// Reads the job. A resumed one must agree with the saved one, whose missing settings have their defaults: an older
/// version may have saved it.
result<void> fill_job(train_order& order, const std::vector<model::setting>& given) {
  if (!order.checkpoints.resume) {
    TROUPE_SET(order.what, new_job(given));
    return {};
  }
  const model::checkpoint_manifest& from = order.checkpoints.resume->what.manifest;
  const std::vector<model::setting> saved = model::settings_with_files_of(from, given);
  TROUPE_TRY(saved_job, model::parse_job(saved));
  if (auto differs = other_overlap(saved_job, given)) return bad_input(std::move(*differs));
  TROUPE_TRY(settings, resumed_settings(saved, saved_job.streams(), given));
  std::vector<std::string_view> free = model::settings_free_on_resume;
  if (saved_job.elastic.is_on() || model::value_of(given, "elastic") != nullptr) {
    TROUPE_TRY(memberships, resumed_memberships(saved_job, from.step, given));
    put(settings, "memberships", model::to_string(memberships));
    put(settings, "trainers", std::to_string(model::trainers_at(memberships, from.step)));
    free.insert(free.end(), {"elastic", "memberships", "trainers"});
    if (!saved_job.elastic.is_on()) free.insert(free.end(), {"elastic-batch", "elastic-lr"});
  }
  TROUPE_SET(order.what, model::parse_job(settings));
  auto differs = model::first_difference(model::to_settings(saved_job), model::to_settings(order.what), free);
  if (differs) return bad_input(std::move(*differs));
  return {};
}

/// Replaces `trainers all` by a number: of CUDA devices if trainers compute on them, else of cores.
result<void> count_trainers(std::vector<model::setting>& given, actors::compute_devices devices, computing where) {
  const auto all = std::ranges::find(given, model::setting("trainers", model::all_trainers));
  if (all == given.end()) return {};
  if (where != computing::here)
    return bad_input("--trainers all: the trainers compute on hosts that are to join; say how many there will be");
  all->second = "1";
  if (devices.trainers_by_default) {
    TROUPE_TRY(alone, model::parse_job(given));
    devices.follow(actors::advice_for(alone));
  }
  all->second =
      std::to_string(devices.trainers ? devices.numbers.size() : std::max(1U, std::thread::hardware_concurrency()));
  return {};
}

/// Fills in the order from file and command line.
result<void> fill(train_order& order, const CLI::App& app, computing where) {
  TROUPE_SET(order.checkpoints, read_checkpoint_options(order.run_settings));
  TROUPE_SET(order.machine, read_machine_options([&](const char* name) -> std::optional<std::string> {
               if (where == computing::here || std::string_view(name) == "threads")
                 return option_text(order.run_settings, name);
               return std::string_view(name) == "device" ? std::optional<std::string>("cpu") : std::nullopt;
             }));
  auto given = given_settings(app, order.file, model::job_settings());
  if (auto counted = count_trainers(given, order.machine.devices, where); !counted) return counted;
  if (auto filled = fill_job(order, given); !filled) return filled;
  if (where == computing::here)
    for (const char* name : {"device", "devices", "server-device"})
      if (const auto text = option_text(order.run_settings, name))
        order.device_options_given += fmt::format(" --{} {}", name, *text);
  TROUPE_SET(order.rejoin_timeout, read_rejoin_timeout(order.run_settings));
  order.metrics_csv = option_text(order.run_settings, "metrics-csv");
  order.processes = option_text(order.run_settings, "processes") == "true";
  order.tensorboard = option_text(order.run_settings, "tensorboard");
  TROUPE_SET(order.traced, read_trace_options(order.run_settings));
  return {};
}

}  // namespace

void add_train_options(CLI::App& app) {
  app.add_option("JOB.toml")->description("a job file; options override it");
  add_job_options(app);
  for (const option_set set : {option_set::machine, option_set::batches, option_set::checkpoints, option_set::restarts,
                               option_set::outputs, option_set::trace})
    add_options(app, set);
  add_switch(app, "print-job", "print the whole job as a job file, and do not run it", "Output");
  add_switch(app, "print-network", "print the job's network layer by layer, and do not run it", "Output");
}

namespace {

/// Returns whether the run of the newest checkpoint in a folder was elastic. Faults there are reported when the whole
/// checkpoint is read.
bool was_elastic(const std::string& folder) {
  const auto steps = model::checkpoint_steps(folder);
  if (!steps || steps->empty()) return false;
  const auto seen = model::inspect_checkpoint(folder, steps->front(), model::inspection_depth::lengths);
  return seen && seen->what && model::value_of(seen->what->manifest.settings, "elastic") != nullptr;
}

}  // namespace

result<void> supervise_if_wanted(const CLI::App& app, console& out) {
  for (const char* prints : {"--print-job", "--print-network"})
    if (app.get_option(prints)->count() > 0) return {};
  TROUPE_TRY(file, read_file(app));
  auto given = given_settings(app, file, run_settings());
  for (model::setting& one : given_settings(app, file, model::job_settings()))
    if (one.first == "elastic") given.push_back(std::move(one));
  const auto* resumed = model::value_of(given, "resume");
  if (resumed != nullptr && was_elastic(*resumed)) given.emplace_back("elastic", "");
  const CLI::Option* asked = app.get_option_no_throw("--supervised");
  if (asked != nullptr && asked->count() > 0) given.emplace_back("supervised", "true");
  auto supervised = launch::supervise_if_wanted(given, out);
  if (!supervised) return tl::unexpected<fault>(model::located(std::move(supervised.error()), file));
  return {};
}

result<train_order> read_train_order(const CLI::App& app, computing where) {
  TROUPE_TRY(file, read_file(app));
  train_order order;
  order.file = std::move(file);
  order.run_settings = given_settings(app, order.file, run_settings());
  order.network_options_given = given_network_options(app);
  auto filled = fill(order, app, where);
  if (!filled) return tl::unexpected<fault>(model::located(std::move(filled.error()), order.file));
  return order;
}

result<own_options> read_own_options(const CLI::App& app) {
  TROUPE_TRY(file, read_file(app));
  std::vector<model::setting> given = given_settings(app, file, run_settings());
  // The file's page is for the master.
  if (!given_text(app, "page")) std::erase_if(given, [](const model::setting& one) { return one.first == "page"; });
  auto machine = read_machine_options([&](const char* name) { return option_text(given, name); });
  if (!machine) return tl::unexpected(model::located(std::move(machine.error()), file));
  auto traced = read_trace_options(given);
  if (!traced) return tl::unexpected(model::located(std::move(traced.error()), file));
  return own_options{std::move(*machine), std::move(*traced)};
}

result<std::optional<std::vector<model::setting>>> read_expected_job(const CLI::App& app) {
  if (app.get_option("JOB.toml")->count() == 0) return std::nullopt;
  TROUPE_TRY(file, read_file(app));
  const auto given = given_settings(app, file, model::job_settings());
  auto made = model::parse_job(given);
  if (!made) return tl::unexpected<fault>(model::located(std::move(made.error()), file));
  // In the master's spelling. Settings that the file leaves out may have any value at the master.
  auto all = model::to_settings(*made);
  std::erase_if(all, [&](const model::setting& one) { return model::value_of(given, one.first) == nullptr; });
  return all;
}

result<bool> print_if_asked(const CLI::App& app, const train_order& order, console& out) {
  if (app.get_option("--print-network")->count() > 0) {
    TROUPE_TRY(data, model::open_dataset(order.what));
    if (auto wrong = model::check_network(order.what, data->spec())) return bad_input(std::move(*wrong));
    print_network(order.what, data->spec(), out);
    return true;
  }
  if (app.get_option("--print-job")->count() == 0) return false;
  if (out.json()) return bad_input("--print-job prints TOML, and nothing as JSON: leave out --json");
  std::vector<model::setting> settings = model::to_settings(order.what);
  settings.insert(settings.end(), order.run_settings.begin(), order.run_settings.end());
  TROUPE_TRY(text, model::print_job(settings, known_settings()));
  out.result(text);
  return true;
}

}  // namespace troupe::apps
