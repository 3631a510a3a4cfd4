#include "cluster/nodes/diagnosis.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <caf/all.hpp>
#include <fstream>
#include <iterator>
#include <set>

#include "actors/common/actor_name.hpp"
#include "base/host.hpp"
#include "base/lossless_json.hpp"
#include "cluster/nodes/thread_stacks.hpp"
#include "cluster/nodes/trace_sources.hpp"
#include "protocol/errors.hpp"
#include "trace/analysis/lasting_waits.hpp"
#include "trace/analysis/summary.hpp"
#include "trace/record/clock.hpp"
#include "trace/record/trace_file.hpp"

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

/// Copies this run's rings from a folder of this machine, including those of dead processes.
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
  // After this process was stopped, for example by a terminal, its steps get the full time again.
  const std::uint64_t looks_at = trace::ticks_now();
  if (static_cast<double>(looks_at - std::exchange(last_look_, looks_at)) > rate) awake_since_ = looks_at;
  for (const trace::board_entry* actor : recorder_->actors()) {
    const std::uint64_t began = actor->step_begin.load(std::memory_order_relaxed);
    const std::uint64_t begin = began == 0 ? 0 : std::max(began, awake_since_);
    if (begin == 0 && timeout_)
      if (auto late = look_at_calls(*actor, static_cast<double>(timeout_->count()) / ms_per_s)) return late;
    const std::uint64_t now = trace::ticks_now();
    const std::uint64_t step = actor->step.load(std::memory_order_relaxed);
    if (begin == 0 || begin > now || reported_[actor->actor] >= step) continue;
    const double longest_s = static_cast<double>(actor->step_longest.load(std::memory_order_relaxed)) / rate;
    const double learned_s = longest_s > 0 ? std::max(at_least_s, times * longest_s) : first_s;
    const double limit_s = timeout_ ? static_cast<double>(timeout_->count()) / ms_per_s : learned_s;
    const double taken_s = static_cast<double>(now - begin) / rate;
    if (taken_s < limit_s) continue;
    reported_[actor->actor] = step;
    return fmt::format("step {} of {} takes longer than {:.3g} s ({})", step, actor->name.data(), limit_s,
                       timeout_ ? "--step-timeout" : "learned from earlier steps; --step-timeout sets it");
  }
  return std::nullopt;
}

std::optional<std::string> watchdog::look_at_calls(const trace::board_entry& actor, double limit_s) {
  const std::uint64_t now = trace::ticks_now();
  for (const auto& [caller, call] : recorder_->calls()) {
    std::uint64_t& reported = reported_calls_[caller];
    const bool is_late =
        call.since < now && static_cast<double>(now - call.since) / trace::ticks_per_second() >= limit_s;
    if (caller != actor.actor || !is_late || reported >= call.since) continue;
    reported = call.since;
    return fmt::format("{} takes {} longer than {:.3g} s (--step-timeout)", title_of(call), actor.name.data(), limit_s);
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

// -- known hangs --------------------------------------------------------------------------

namespace {

std::map<std::uint16_t, std::vector<std::uint64_t>> places_of_trainers(const trace::recording& run) {
  std::map<std::uint16_t, std::vector<std::uint64_t>> all;
  for (const trace::actor_state& one : run.actors) {
    if (!one.name.starts_with("trainer ") || !one.alive) continue;
    std::vector<std::uint64_t>& place = all[one.actor];
    place.push_back(one.step);
    for (const auto& call : one.calls) place.insert(place.end(), {call.what.group, call.what.number});
  }
  return all;
}

}  // namespace

known_hang::known_hang(const trace::recording& run, const analysis::blocked_report& found)
    : root_(found.root), places_(places_of_trainers(run)) {}

bool known_hang::is_still_there(const known_hang& now) const {
  return now.root_ == root_ && std::ranges::any_of(places_, [&](const auto& one) {
           return std::ranges::find(now.places_, one) != now.places_.end();
         });
}

// -- a diagnosis --------------------------------------------------------------------------

namespace {

/// Reads the current state of the run's processes on this host. Errors: as for trace::read_recording.
result<trace::recording> look_at_rings(const trace::recorder& recorder) {
  std::vector<path> rings;
  std::error_code failed;
  for (std::filesystem::directory_iterator i(recorder.folder(), failed), end; !failed && i != end; i.increment(failed))
    if (i->path().extension() == ".ring") rings.push_back(i->path());
  return trace::read_recording(trace_sources(std::move(rings), recorder.run()));
}

}  // namespace

diagnosis::diagnosis(const trace::recorder& recorder, std::string why, private_folder folder)
    : recorder_(&recorder),
      why_(std::move(why)),
      folder_(std::make_shared<const private_folder>(std::move(folder))),
      run_(recorder.run()) {}

result<diagnosis> diagnosis::begin(const trace::recorder& recorder, std::string why) {
  const auto now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  auto folder = private_folder::create(recorder.folder() / fmt::format("diagnosis-{:%H%M%S}", fmt::localtime(now)));
  if (!folder) return run_fault(folder.error().message);
  diagnosis made(recorder, std::move(why), std::move(*folder));
  if (const auto done = made.folder_->write(recorder.ring_file().filename().string(), recorder.copy()); !done)
    return run_fault(done.error().message);
  copy_rings(recorder.folder(), made.run_, *made.folder_);
  return made;
}

bool diagnosis::has_all(std::size_t members) const {
  const auto copied = trace::read_recording(trace_sources({folder()}, run_));
  if (!copied) return false;
  std::set<std::string> names;
  for (const trace::actor_state& one : copied->actors)
    if (one.name.starts_with("server ") || one.name.starts_with("trainer ")) names.insert(one.name);
  return names.size() >= members;
}

void diagnosis::collect(caf::actor_system& system, const msg::master_actor& boss) const {
  std::string stacks = fmt::format("== {}\n{}\n", recorder_->ring_file().filename().string(), stacks_of_all_threads());
  for (const msg::evidence& part : ask_nodes(system, boss)) {
    const std::string name = ring_name(part.file);
    stacks += fmt::format("== {}\n{}\n", name, part.stacks);
    if (part.ring.empty())
      copy_rings(part.folder, run_, *folder_);
    else if (!folder_->has(name))
      (void)folder_->write(name, {reinterpret_cast<const char*>(part.ring.data()), part.ring.size()});
  }
  (void)folder_->write("stacks.txt", stacks);  // if that fails, the verdict is still reported
}

result<std::string> diagnosis::conclude(bool has_all) {
  auto recording = trace::read_recording(trace_sources({folder()}, run_));
  if (!recording) return run_fault(recording.error().message);
  const trace::recording copied = std::move(*recording);
  analysis::blocked_report found = analysis::find_blocked(copied);
  trace::recording later;
  for (analysis::second_look looks; has_all && looks.has_more(found);) {
    auto now = look_at_rings(*recorder_);
    if (!now) break;
    later = std::move(*now);
    found = analysis::find_blocked(copied, later);
  }
  const trace::recording& read = later.processes.empty() ? copied : later;
  found_ = known_hang(read, found);
  const analysis::causality events(read);
  constexpr std::size_t rows_of_each_list = 20;
  const std::string blocked = json_text(analysis::to_json(read, found)) + "\n";
  const std::string summary =
      fmt::format("{}\nwhy this was written: {}\n\n{}\n{}", found.verdict, why_, analysis::to_text(read, found),
                  analysis::summary_text(events, analysis::summarize(events), rows_of_each_list));
  for (const auto& [name, text] : {std::pair("blocked.json", &blocked), std::pair("summary.txt", &summary)})
    if (const auto done = folder_->write(name, *text); !done) return run_fault(done.error().message);
  return found.verdict;
}

void diagnosis::drop() const {
  std::error_code stays;
  std::filesystem::remove_all(folder(), stays);
}

// -- all diagnoses of a run ---------------------------------------------------------------

void diagnoses::write(const std::string& why) {
  if (recorder_ == nullptr) return report(fmt::format("{}: no diagnosis, as nothing is recorded (--trace off)", why));
  if (const auto done = write_new(why); !done) report(fmt::format("{}: no diagnosis: {}", why, done.error().message));
}

/// Writes a diagnosis unless its hang is already known. The comparison needs the rings of all hosts; if all are on this
/// host, it needs no folder.
result<void> diagnoses::write_new(const std::string& why) {
  const bool is_wanted = why == signal_here || why == signal_to_member;
  if (!is_wanted && last_ && last_was_of_this_host_)
    if (const auto now = look_at_rings(*recorder_); now && last_->is_still_there({*now, analysis::find_blocked(*now)}))
      return {};
  TROUPE_TRY(made, diagnosis::begin(*recorder_, why));
  const bool has_all = made.has_all(members_);
  if (!has_all) made.collect(system_, boss_);
  TROUPE_TRY(verdict, made.conclude(has_all));
  if (!is_wanted && last_ && last_->is_still_there(made.found())) {
    made.drop();
    return {};
  }
  last_ = made.found();
  last_was_of_this_host_ = has_all;
  report(fmt::format("{}: {}; see {}", why, verdict, (made.folder() / "summary.txt").string()));
  caf::anon_send(boss_, msg::verdict_found{msg::header_source(0, actors::client_number).next(0, 0),
                                           fmt::format("{} ({})", verdict, made.folder().string())});
  if (!has_all) return {};
  // Runs beside the training: a stopped process does not answer.
  collecting_.push_back(std::async(std::launch::async, [this, made] { made.collect(system_, boss_); }));
  return {};
}

void diagnoses::report(const std::string& line) const {
  if (report_) report_(line);
}

}  // namespace troupe::nodes
