#include "trace/record/attempts.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "base/mapped.hpp"
#include "base/text.hpp"
#include "trace/record/recording.hpp"
#include "trace/record/trace_file.hpp"

namespace troupe::trace {

namespace {

/// An attempt as one file describes it.
struct attempt_metadata {
  std::string supervised;
  std::uint64_t number = 0;
  std::string lost;
  std::uint64_t redone = 0;
  std::optional<std::uint64_t> from_step;
};

std::optional<std::uint64_t> count_in(const boost::json::object& about, std::string_view key) {
  const auto* found = about.if_contains(key);
  if (found == nullptr || !found->is_int64() || found->get_int64() < 0) return std::nullopt;
  return static_cast<std::uint64_t>(found->get_int64());
}

std::optional<attempt_metadata> attempt_in(const boost::json::object& metadata) {
  const auto* found = metadata.if_contains(attempt_key);
  if (found == nullptr || !found->is_object()) return std::nullopt;
  const boost::json::object& about = found->get_object();
  const auto* supervised = about.if_contains("supervised");
  const auto* lost = about.if_contains("lost");
  const std::uint64_t number = count_in(about, "number").value_or(0);
  if (supervised == nullptr || !supervised->is_string() || number == 0) return std::nullopt;
  return attempt_metadata{std::string(supervised->get_string()), number,
                          lost != nullptr && lost->is_string() ? harmless(lost->get_string()) : std::string(),
                          count_in(about, "redone").value_or(0), count_in(about, "from_step")};
}

/// Returns the run of the attempt to read: the one named, or the newest.
result<std::uint64_t> choose_attempt(const std::vector<attempt_info>& attempts, std::uint64_t wanted) {
  if (wanted == 0) return attempts.back().run;
  if (attempts.empty()) return bad_input("--attempt {}: these files are not of attempts at one supervised run", wanted);
  const auto found = std::ranges::find(attempts, wanted, &attempt_info::number);
  if (found != attempts.end()) return found->run;
  const auto known = mapped(attempts, &attempt_info::number);
  return bad_input("--attempt {}: not among these files, which are of attempt {}", wanted, fmt::join(known, ", "));
}

}  // namespace

double goodput(const attempt_info& one) {
  const std::uint64_t all = one.last_step + one.redone;
  return all == 0 ? 1 : static_cast<double>(one.last_step) / static_cast<double>(all);
}

boost::json::object describe_attempt(const std::string& supervised, std::uint64_t number, const std::string& lost,
                                     std::uint64_t redone, std::optional<std::uint64_t> from_step) {
  constexpr std::size_t lost_max = 500;  // so that it fits into the metadata
  boost::json::object all = {
      {"supervised", supervised}, {"number", number}, {"lost", lost.substr(0, lost_max)}, {"redone", redone}};
  if (from_step) all["from_step"] = *from_step;
  return all;
}

std::vector<attempt_info> attempts_in(const std::vector<trace_file>& files) {
  std::map<std::uint64_t, attempt_info> by_run;
  std::map<std::uint64_t, std::string> lost;  // by number: why the previous one ended
  std::optional<std::string> supervised;
  for (const trace_file& file : files) {
    if (file.run == 0) continue;  // its process had not joined yet
    attempt_info& one = by_run[file.run];
    one.run = file.run;
    for (const board_row& row : file.board) one.last_step = std::max(one.last_step, row.step);
    auto reported = attempt_in(file.metadata);
    if (!reported) continue;
    if (supervised && *supervised != reported->supervised) return {};
    supervised = std::move(reported->supervised);
    one.number = reported->number;
    one.redone = reported->redone;
    one.from_step = reported->from_step;
    lost[reported->number] = std::move(reported->lost);
  }
  std::vector<attempt_info> all;
  for (auto& [run, one] : by_run) {
    if (one.number == 0) return {};  // its leading process's files are not here, or it is another run
    if (const auto next = lost.find(one.number + 1); next != lost.end()) one.ended = next->second;
    all.push_back(std::move(one));
  }
  std::ranges::sort(all, {}, &attempt_info::number);
  return all;
}

result<std::uint64_t> choose_run(const std::vector<trace_file>& files, const std::vector<attempt_info>& attempts,
                                 const sources& from) {
  std::map<std::uint64_t, std::size_t> runs;
  for (const trace_file& file : files) ++runs[file.run];
  if (from.run != 0) {
    if (runs.contains(from.run)) return from.run;
    return bad_input("run {}: not among these files, which are of run {}", from.run,
                     fmt::join(mapped(runs, [](const auto& run) { return run.first; }), ", "));
  }
  if (from.attempt != 0) return choose_attempt(attempts, from.attempt);
  if (runs.size() > 1) runs.erase(0);  // 0: a process that had not joined a run yet
  if (runs.size() == 1) return runs.begin()->first;
  if (!attempts.empty()) return choose_attempt(attempts, 0);
  if (from.newest)
    return std::ranges::max_element(files, {},
                                    [](const trace_file& file) { return file.run == 0 ? 0 : file.begin.realtime_ns; })
        ->run;
  std::string text;
  for (const auto& [run, count] : runs)
    text += fmt::format("{}{} ({} file{})", text.empty() ? "" : ", ", run, count, count == 1 ? "" : "s");
  return bad_input("these files are of {} runs: {}; name one by --run", runs.size(), text);
}

}  // namespace troupe::trace
