#include "nodes/diagnosis.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <caf/all.hpp>
#include <fstream>
#include <iterator>

#include "actors/actor_name.hpp"
#include "analysis/blocked.hpp"
#include "analysis/summary.hpp"
#include "base/host.hpp"
#include "base/lossless_json.hpp"
#include "base/private_folder.hpp"
#include "nodes/thread_stacks.hpp"
#include "nodes/trace_sources.hpp"
#include "protocol/errors.hpp"
#include "trace/clock.hpp"
#include "trace/trace_file.hpp"

namespace troupe::nodes {

namespace {

using std::filesystem::path;

/// A peer's file name must neither leave the folder nor replace another file of the diagnosis.
std::string ring_name(const std::string& name) {
  const path file = path(name).filename();
  return file.extension() == ".ring" ? file.string() : file.string() + ".ring";
}

std::string read_bytes(const path& file) {
  std::ifstream from(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(from), {}};
}

/// Copies the rings of this run from a folder of this machine, those of dead processes too.
void copy_rings(const path& from, std::uint64_t run, const private_folder& to) {
  std::error_code failed;
  for (std::filesystem::directory_iterator i(from, failed), end; !failed && i != end; i.increment(failed)) {
    const std::string name = i->path().filename().string();
    if (!i->is_regular_file(failed) || i->path().extension() != ".ring" || to.has(name)) continue;
    const trace::clock_sample when = trace::sample_clocks();
    std::string bytes = read_bytes(i->path());
    trace::memory_budget budget(trace_sources({}, run).memory_bytes_max);
    const auto file = trace::parse_trace_file(bytes, i->path(), budget);
    if (!file || (file->run != run && file->run != 0)) continue;
    // A dead process must not look alive.
    if (trace::is_alive(*file).value_or(false)) trace::mark_as_copy(bytes, when);
    (void)to.write(name, bytes);  // a failed copy is left out: the others still help
  }
}

std::vector<msg::evidence> ask_nodes(caf::actor_system& system, const msg::master_actor& boss) {
  constexpr std::chrono::seconds timeout{15};  // longer than the master's timeout for its nodes
  std::vector<msg::evidence> parts;
  const caf::scoped_actor self(system);
  self->request(boss, timeout,
                msg::collect_evidence{msg::header_source(0, actors::client_number).next(0, 0), trace::this_boot()})
      .receive([&](msg::collected_evidence& all) { parts = std::move(all.parts); }, [](const caf::error&) {});
  return parts;
}

}  // namespace

std::optional<std::string> watchdog::look() {
  if (recorder_ == nullptr) return std::nullopt;
  constexpr double at_least_s = 10;
  constexpr double first_s = 60;
  constexpr double times = 20;
  constexpr double ms_per_s = 1000;
  const double rate = trace::ticks_per_second();
  for (const trace::board_entry* actor : recorder_->actors()) {
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

msg::evidence evidence_of(const trace::recorder* recorder, const std::string& boot) {
  msg::evidence mine;
  if (recorder == nullptr) return mine;
  mine.file = recorder->ring_file().filename().string();
  mine.folder = std::filesystem::absolute(recorder->folder()).string();
  mine.stacks = stacks_of_all_threads();
  if (boot == trace::this_boot()) return mine;
  const std::string bytes = recorder->copy();
  if (bytes.size() > msg::blob::max_bytes) {
    mine.stacks += fmt::format("(its ring of {} bytes is too long to be sent, the limit is {}; it is in {})\n",
                               bytes.size(), msg::blob::max_bytes, mine.folder);
    return mine;
  }
  mine.ring = msg::blob::own(std::vector<std::uint8_t>(bytes.begin(), bytes.end()));
  return mine;
}

result<diagnosis> diagnose(caf::actor_system& system, const msg::master_actor& boss, const trace::recorder& recorder,
                           const std::string& why) {
  const auto now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  const auto folder =
      private_folder::create(recorder.folder() / fmt::format("diagnosis-{:%H%M%S}", fmt::localtime(now)));
  if (!folder) return run_fault(folder.error().message);
  diagnosis made;
  made.folder = folder->path();
  const std::string own = recorder.copy();
  if (const auto done = folder->write(recorder.ring_file().filename().string(), own); !done)
    return run_fault(done.error().message);
  std::string stacks = fmt::format("== {}\n{}\n", recorder.ring_file().filename().string(), stacks_of_all_threads());
  const auto own_file = trace::parse_trace_file(own, recorder.ring_file());
  const std::uint64_t run = own_file ? own_file->run : 0;
  for (const msg::evidence& part : ask_nodes(system, boss)) {
    const std::string name = ring_name(part.file);
    stacks += fmt::format("== {}\n{}\n", name, part.stacks);
    if (part.ring.empty())
      copy_rings(part.folder, run, *folder);
    else
      (void)folder->write(name, {reinterpret_cast<const char*>(part.ring.data()), part.ring.size()});
  }
  copy_rings(recorder.folder(), run, *folder);
  if (const auto done = folder->write("stacks.txt", stacks); !done) return run_fault(done.error().message);

  const auto recording = trace::read_recording(trace_sources({made.folder}, run));
  if (!recording) return run_fault(recording.error().message);
  const analysis::blocked_report found = analysis::find_blocked(*recording);
  const analysis::causality events(*recording);
  constexpr std::size_t rows_of_each_list = 20;
  made.verdict = found.verdict;
  const std::string blocked = json_text(analysis::to_json(*recording, found)) + "\n";
  const std::string summary =
      fmt::format("{}\nwhy this was written: {}\n\n{}\n{}", found.verdict, why, analysis::to_text(*recording, found),
                  analysis::summary_text(events, analysis::summarize(events), rows_of_each_list));
  for (const auto& [name, text] : {std::pair("blocked.json", &blocked), std::pair("summary.txt", &summary)})
    if (const auto done = folder->write(name, *text); !done) return run_fault(done.error().message);
  caf::anon_send(boss, msg::verdict_found{msg::header_source(0, actors::client_number).next(0, 0),
                                          fmt::format("{} ({})", found.verdict, made.folder.string())});
  return made;
}

}  // namespace troupe::nodes
