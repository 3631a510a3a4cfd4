#include "cluster/launch/trace_options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <boost/json/string.hpp>
#include <cstdlib>
#include <system_error>
#include <utility>

#include "actors/common/traced_system.hpp"
#include "base/number.hpp"
#include "base/result.hpp"
#include "base/text.hpp"
#include "cluster/launch/attempt.hpp"
#include "cluster/launch/crash.hpp"
#include "cluster/launch/option_table.hpp"
#include "cluster/launch/stop_deadline.hpp"
#include "cluster/launch/text.hpp"
#include "cluster/links/credentials.hpp"
#include "cluster/nodes/trace_sources.hpp"
#include "page/access.hpp"
#include "trace/record/attempts.hpp"
#include "trace/record/names.hpp"
#include "trace/record/run_folders.hpp"
#include "trace/record/trace_file.hpp"

namespace troupe::launch {

namespace {

constexpr std::uint64_t mib = std::uint64_t{1} << 20;

/// Returns the folder for temporary files.
std::filesystem::path temporary_place() {
  const char* place = std::getenv("TMPDIR");
  return place != nullptr && *place != '\0' ? place : "/tmp";
}

constexpr const char* folder_name = "trace folder";

std::string shell_path(const std::filesystem::path& folder) { return shell_word(folder.string()); }

std::string kept_at(const std::filesystem::path& folder) {
  return fmt::format("the trace is kept: 'troupe trace blocked {}' shows what waited for what", shell_path(folder));
}

constexpr const char* turned_off = "which --trace off turns off";

/// Returns the bytes of each actor's ring. `is_read`: a page or the writer of a log reads it.
result<std::uint64_t> ring_bytes(const std::optional<std::string>& text, bool is_read) {
  constexpr std::uint64_t mib_max = 4096;
  // 2 MiB stay in a core's cache; a larger ring makes recording the shortest steps twice as expensive. A page shows
  // the ring's content, and a log writer needs time to take records from it.
  if (!text) return (is_read ? 16 : 2) * mib;
  const auto size = parse_number<std::uint64_t>(*text);
  if (!size || *size == 0 || *size > mib_max)
    return bad_input("--trace-ring-mib {}: must be a whole number between 1 and {}", printable(*text), mib_max);
  return *size * mib;
}

result<std::chrono::milliseconds> step_timeout(const std::string& text, bool is_recorded) {
  constexpr double most = 86'400;
  constexpr double least = 0.1;
  constexpr double ms_per_s = 1000;
  const auto seconds = parse_number<double>(text);
  if (!seconds || !(*seconds >= least && *seconds <= most))
    return bad_input("--step-timeout {}: must be between {} and {} seconds", printable(text), least, most);
  if (!is_recorded) return bad_input("--step-timeout: goes with a trace, {}", turned_off);
  return std::chrono::milliseconds(static_cast<std::int64_t>(*seconds * ms_per_s));
}

result<std::uint16_t> page_port(const std::string& text, bool is_recorded) {
  const auto port = text.empty() ? 0 : parse_number<std::uint16_t>(text);
  if (!port) return bad_input("--page {}: must be a port, 0 to 65535", printable(text));
  if (!is_recorded) return bad_input("--page: shows what is recorded, {}", turned_off);
  return *port;
}

}  // namespace

result<trace_order> read_trace_options(const std::vector<model::setting>& given) {
  trace_order order;
  const auto what = option_text(given, "trace");
  const auto folder = option_text(given, "trace-dir");
  order.is_wanted = model::value_of(given, "trace") != nullptr || model::value_of(given, "trace-dir") != nullptr;
  if (what) {
    constexpr std::array modes = {trace::mode::off, trace::mode::ring, trace::mode::full, trace::mode::payload};
    const auto found = std::ranges::find(modes, *what, [](trace::mode one) { return trace::name_of(one); });
    if (found == modes.end()) return bad_input("--trace {}: must be off, ring, full or payload", printable(*what));
    order.how.what = *found;
  }
  const bool is_recorded = order.how.what != trace::mode::off;
  for (const char* name : {"trace-dir", "trace-filter", "trace-ring-mib"})
    if (!is_recorded && model::value_of(given, name) != nullptr)
      return bad_input("--{}: goes with a trace, {}", name, turned_off);
  order.own_folder = !folder;
  if (folder) order.how.folder = *folder;
  if (folder && folder->empty()) return bad_input("--trace-dir: needs the name of a folder");
  if (const auto text = option_text(given, "trace-filter")) {
    auto filter = trace::parse_filter(*text);
    if (!filter) return bad_input("--trace-filter {}", printable(filter.error().message));
    order.how.wanted = std::move(*filter);
    order.filter = *text;
  }
  if (const auto text = option_text(given, "trace-payload")) {
    for (const auto pattern : split(*text, ','))
      if (!pattern.empty()) order.how.payload_actors.emplace_back(pattern);
    if (order.how.what != trace::mode::payload)
      return bad_input("--trace-payload {}: goes with --trace payload", printable(*text));
  }
  const auto page = option_text(given, "page");
  const bool is_read = page || order.how.what == trace::mode::full || order.how.what == trace::mode::payload;
  TROUPE_SET(order.how.ring_bytes, ring_bytes(option_text(given, "trace-ring-mib"), is_read));
  if (const auto text = option_text(given, "step-timeout"))
    TROUPE_SET(order.step_timeout, step_timeout(*text, is_recorded));
  if (page) TROUPE_SET(order.page, page_port(*page, is_recorded));
  order.how.types = actors::traced_types();
  return order;
}

std::vector<std::string> trace_variables(const trace_order& order, bool is_on) {
  constexpr double ms_per_s = 1000;
  std::string timeout;
  if (is_on && order.step_timeout)
    timeout = fmt::format("{}", static_cast<double>(order.step_timeout->count()) / ms_per_s);
  // An empty variable counts as absent, and hides this process's own from its children.
  return {
      fmt::format("TROUPE_TRACE={}", is_on ? trace::name_of(order.how.what) : "off"),
      fmt::format("TROUPE_TRACE_DIR={}", order.how.folder.string()),
      fmt::format("TROUPE_TRACE_RING_MIB={}", order.how.ring_bytes / mib),
      fmt::format("TROUPE_TRACE_FILTER={}", order.filter),
      fmt::format("TROUPE_TRACE_PAYLOAD={}", is_on ? fmt::format("{}", fmt::join(order.how.payload_actors, ",")) : ""),
      "TROUPE_STEP_TIMEOUT=" + timeout,
      "TROUPE_PAGE="};
}

result<run_trace> run_trace::start(trace_order& order, console& out) {
  run_trace made;
  if (order.how.what == trace::mode::off) return made;
  made.own_folder_ = order.own_folder;
  made.is_wanted_ = order.is_wanted;
  const auto refused = [&](const std::string& why) -> result<run_trace> {
    if (order.is_wanted) return bad_input("{}{}", order.own_folder ? "--trace: " : "--trace-dir ", why);
    out.warning(fmt::format("nothing is recorded: {}; --trace-dir names another folder", why));
    return run_trace();
  };
  attempt* const mine = attempt::mine();
  if (order.own_folder && mine != nullptr) order.how.folder = mine->remembered(folder_name);
  if (order.own_folder && !order.how.folder.empty()) {
    trace::remove_old_rings(order.how.folder);  // left by the previous attempt
  } else if (order.own_folder) {
    auto folder = trace::make_run_folder(temporary_place());
    if (!folder) return refused(folder.error().message);
    if (!folder->warning.empty()) out.warning(folder->warning);
    order.how.folder = std::move(folder->path);
    if (mine != nullptr) mine->remember(folder_name, order.how.folder.string());
  }
  auto started = trace::recorder::start(order.how);
  if (!started) {
    std::error_code not_empty;
    if (order.own_folder) std::filesystem::remove(order.how.folder, not_empty);
    return refused(started.error().message);
  }
  made.recorder_ = std::move(*started);
  describe_attempt(made.recorder_.get());
  made.stalls_ = std::make_unique<trace::stall_watch>(*made.recorder_);
  if (order.page) {
    trace::sources from = nodes::trace_sources({order.how.folder}, 0, nodes::share_of_two_readings);
    from.newest = true;
    TROUPE_TRY(token, read_page_token(std::nullopt));
    auto shown = page::live_page::start(
        {.from = std::move(from), .host = "127.0.0.1", .port = *order.page, .token = std::move(token)});
    if (!shown) return bad_input("--page: {}", shown.error().message);
    made.page_ = std::move(*shown);
    out.report(fmt::format("the run can be watched at {}", made.page_->url()));
  }
  return made;
}

void run_trace::report_if_crashed(const console& out) const {
  if (!recorder_) return;
  say_if_overdue(kept_at(recorder_->folder()));
  if (attempt::mine() == nullptr)  // else the next attempt removes the trace
    say_if_crashed(
        fmt::format("{}: error: this process has crashed; its trace is kept: 'troupe trace blocked {}' says "
                    "what it did last\n",
                    out.name(), shell_path(recorder_->folder())));
}

void describe_attempt(trace::recorder* recorder) {
  attempt* const mine = attempt::mine();
  if (mine == nullptr || recorder == nullptr) return;
  constexpr const char* name = "supervised run";
  if (mine->remembered(name).empty()) mine->remember(name, links::random_token());
  recorder->describe(trace::attempt_key,
                     trace::describe_attempt(mine->remembered(name), mine->before().number, mine->before().lost,
                                             mine->redone(), mine->from_step()));
}

bool run_trace::note_failure(const fault& why, bool has_begun) {
  if (recorder_ && !why.message.empty()) recorder_->describe(trace::error_key, boost::json::string(why.message));
  return why.kind == fault_kind::input && (own_folder_ || !has_begun);
}

void run_trace::finish_quietly(bool clean) {
  if (!recorder_) return;
  page_.reset();
  stalls_.reset();
  recorder_->finish(clean);
  remove_recorder();
}

void run_trace::remove_recorder() {
  say_if_crashed({});
  say_if_overdue({});
  const std::filesystem::path folder = recorder_->folder();
  recorder_.reset();
  std::error_code not_empty;
  if (own_folder_) std::filesystem::remove(folder, not_empty);
}

void run_trace::finish(bool clean, console& out) {
  if (!recorder_) return;
  if (recorder_->is_empty()) clean = true;  // the process was refused by the master: nothing to keep
  const std::filesystem::path folder = recorder_->folder();
  const bool keeps_all = recorder_->wants_contents();
  page_.reset();
  stalls_.reset();
  recorder_->finish(clean);
  const std::string problem = recorder_->problem();
  const auto [records, contents] = recorder_->lost();
  remove_recorder();
  if (!problem.empty())
    out.warning(fmt::format("not everything was recorded: {}", problem));
  else if (records > 0 || contents > 0)
    out.warning(
        fmt::format("not everything was recorded: {} records and what {} messages held came faster than they could be "
                    "kept; a larger --trace-ring-mib or a --trace-filter helps",
                    records, contents));
  if (!clean)
    out.note(kept_at(folder));
  else if (keeps_all && is_wanted_)
    out.note(fmt::format("the trace is in {}: 'troupe trace summary {}' begins with it", folder.string(),
                         shell_path(folder)));
}

result<std::string> read_page_token(const std::optional<std::string>& file) {
  constexpr const char* variable = "TROUPE_PAGE_TOKEN";
  std::string token;
  if (file) {
    auto read = links::read_token(file);
    if (!read) return bad_input(std::move(read.error().message));
    token = std::move(*read);
  } else if (const char* text = std::getenv(variable)) {
    token = text;
  }
  if (token.empty() || page::is_token(token)) return token;
  return bad_input("{}: a token of {} bytes; a page's has 8 to 128 letters, digits, '-' and '_'",
                   file ? "token file " + *file : variable, token.size());
}

}  // namespace troupe::launch
