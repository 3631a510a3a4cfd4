#include "actors/diagnosis.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <boost/json/serialize.hpp>
#include <caf/all.hpp>
#include <fstream>
#include <iterator>
#include <system_error>
#include <vector>

#include "actors/actor_name.hpp"
#include "actors/thread_stacks.hpp"
#include "protocol/errors.hpp"
#include "protocol/inspect.hpp"
#include "trace/blocked.hpp"
#include "trace/machine.hpp"
#include "trace/summary.hpp"
#include "trace/trace_file.hpp"

namespace troupe {

namespace {

using std::filesystem::path;

/// A file name from elsewhere must not lead out of the folder.
std::string own_name(const std::string& name) {
  const std::string file = path(name).filename().string();
  return file.empty() || file == "." || file == ".." ? "unnamed.ring" : file;
}

std::string read_bytes(const path& file) {
  std::ifstream from(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(from), {}};
}

void write_bytes(const path& file, std::string_view bytes) {
  std::ofstream(file, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

/// Copies of the rings of this run that lie in a folder of this machine, those of dead processes too.
void copy_rings(const path& from, std::uint64_t run, const path& to) {
  std::error_code failed;
  for (std::filesystem::directory_iterator i(from, failed), end; !failed && i != end; i.increment(failed)) {
    if (!i->is_regular_file(failed) || i->path().extension() != ".ring" || exists(to / i->path().filename())) continue;
    std::string bytes = read_bytes(i->path());
    const auto file = trace::parse_trace_file(bytes, i->path());
    if (!file || (file->run != run && file->run != 0)) continue;
    // Who has died is not to look alive.
    if (trace::is_alive(*file).value_or(false)) trace::mark_as_copy(bytes);
    write_bytes(to / i->path().filename(), bytes);
  }
}

std::vector<evidence> ask_nodes(caf::actor_system& system, const master_actor& boss) {
  constexpr std::chrono::seconds patience{15};  // the master's with its nodes is less
  std::vector<evidence> parts;
  const caf::scoped_actor self(system);
  self->request(boss, patience, collect_evidence{header_source(0, client_number).next(0, 0), trace::this_boot()})
      .receive([&](collected_evidence& all) { parts = std::move(all.parts); }, [](const caf::error&) {});
  return parts;
}

path make_folder(const path& within) {
  const auto now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  const std::string name = fmt::format("diagnosis-{:%H%M%S}", fmt::localtime(now));
  path made = within / name;
  for (int i = 2; exists(made); ++i) made = within / fmt::format("{}-{}", name, i);
  return made;
}

}  // namespace

std::optional<std::string> step_watch::look() {
  constexpr double at_least_s = 10;
  constexpr double first_s = 60;
  constexpr double times = 20;
  constexpr double ms_per_s = 1000;
  const double rate = trace::ticks_per_second();
  for (const trace::board_entry* actor : recorder_.actors()) {
    const std::uint64_t begin = actor->step_begin.load(std::memory_order_relaxed);
    const std::uint64_t now = trace::ticks_now();
    const std::uint64_t step = actor->step.load(std::memory_order_relaxed);
    if (begin == 0 || begin > now || told_[actor->actor] >= step) continue;
    const double longest_s = static_cast<double>(actor->step_longest.load(std::memory_order_relaxed)) / rate;
    const double learned_s = longest_s > 0 ? std::max(at_least_s, times * longest_s) : first_s;
    const double limit_s = timeout_ ? static_cast<double>(timeout_->count()) / ms_per_s : learned_s;
    const double taken_s = static_cast<double>(now - begin) / rate;
    if (taken_s < limit_s) continue;
    told_[actor->actor] = step;
    return fmt::format("step {} of {} takes longer than {:.3g} s ({})", step, actor->name.data(), limit_s,
                       timeout_ ? "--step-timeout" : "learned from earlier steps; --step-timeout sets it");
  }
  return std::nullopt;
}

evidence evidence_of(const trace::recorder* recorder, const std::string& boot) {
  evidence mine;
  if (recorder == nullptr) return mine;
  mine.file = recorder->ring_file().filename().string();
  mine.folder = std::filesystem::absolute(recorder->folder()).string();
  mine.stacks = stacks_of_all_threads();
  if (boot == trace::this_boot()) return mine;
  const std::string bytes = recorder->copy();
  mine.ring = blob::own(std::vector<std::uint8_t>(bytes.begin(), bytes.end()));
  return mine;
}

result<diagnosis> diagnose(caf::actor_system& system, const master_actor& boss, const trace::recorder& recorder,
                           const std::string& why) {
  diagnosis made;
  made.folder = make_folder(recorder.folder());
  std::error_code failed;
  std::filesystem::create_directories(made.folder, failed);
  if (failed) return run_fault(fmt::format("{}: cannot be made: {}", made.folder.string(), failed.message()));
  const std::string own = recorder.copy();
  write_bytes(made.folder / recorder.ring_file().filename(), own);
  std::string stacks = fmt::format("== {}\n{}\n", recorder.ring_file().filename().string(), stacks_of_all_threads());
  const auto own_file = trace::parse_trace_file(own, recorder.ring_file());
  const std::uint64_t run = own_file ? own_file->run : 0;
  for (const evidence& part : ask_nodes(system, boss)) {
    const std::string name = own_name(part.file);
    stacks += fmt::format("== {}\n{}\n", name, part.stacks);
    if (part.ring.empty())
      copy_rings(part.folder, run, made.folder);
    else
      write_bytes(made.folder / name, {reinterpret_cast<const char*>(part.ring.data()), part.ring.size()});
  }
  copy_rings(recorder.folder(), run, made.folder);
  write_bytes(made.folder / "stacks.txt", stacks);

  const auto recording = trace::read_recording({{made.folder}, run});
  if (!recording) return run_fault(recording.error());
  const trace::blocked_report found = trace::find_blocked(*recording);
  const trace::causality events(*recording);
  constexpr std::size_t rows_of_each_list = 20;
  made.verdict = found.verdict;
  write_bytes(made.folder / "blocked.json", boost::json::serialize(to_json(*recording, found)) + "\n");
  write_bytes(made.folder / "summary.txt",
              fmt::format("{}\nwhy this was written: {}\n\n{}\n{}", found.verdict, why, to_text(*recording, found),
                          summary_text(events, trace::summarize(events), rows_of_each_list)));
  caf::anon_send(boss, verdict_found{header_source(0, client_number).next(0, 0),
                                     fmt::format("{} ({})", found.verdict, made.folder.string())});
  return made;
}

}  // namespace troupe
