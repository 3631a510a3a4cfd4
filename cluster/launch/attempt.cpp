#include "cluster/launch/attempt.hpp"

#include <boost/json/value_from.hpp>
#include <boost/json/value_to.hpp>
#include <cerrno>
#include <memory>
#include <utility>

#include "base/assert.hpp"
#include "base/lossless_json.hpp"

namespace troupe::launch {

namespace {

namespace json = boost::json;

std::unique_ptr<attempt> current;
bool is_over = false;

/// A message with text for stdout, unchanged: JSON would have to quote it.
std::string printed(std::string_view text, std::uint64_t reported) {
  return std::string(1, attempt::print_mark) + std::to_string(reported) + '\n' + std::string(text);
}

}  // namespace

json::object read_note(const std::string& text) {
  auto note = parse_lossless_json(text);
  TROUPE_ASSERT(note && note->is_object());
  return std::move(note->as_object());
}

attempt* attempt::mine() { return is_over ? nullptr : current.get(); }

bool attempt::is_supervised() { return current != nullptr; }

void attempt::begin(attempt_history before, message_socket supervisor) {
  TROUPE_ASSERT(current == nullptr);
  current.reset(new attempt(std::move(before), std::move(supervisor)));
}

attempt::attempt(attempt_history before, message_socket supervisor)
    : before_(std::move(before)), supervisor_(std::move(supervisor)) {}

void attempt::report(const std::string& what, std::uint64_t number) {
  supervisor_.send(lossless_json(json::object{{"what", what}, {"number", number}}));
}

void attempt::report(const std::string& what, const std::string& text, int attached) {
  supervisor_.send(lossless_json(json::object{{"what", what}, {"text", text}}), attached);
}

bool attempt::may_fail() const { return has_saved_ ? before_.restarts > 0 : before_.losses < before_.restarts; }

int attempt::kept(const std::string& name) const {
  const auto found = before_.kept.find(name);
  return found == before_.kept.end() ? -1 : found->second;
}

void attempt::keep(const std::string& name, int descriptor) { report("keep", name, descriptor); }

std::string attempt::remembered(const std::string& name) const {
  const auto found = before_.remembered.find(name);
  return found == before_.remembered.end() ? std::string() : found->second;
}

void attempt::remember(const std::string& name, const std::string& text) {
  before_.remembered[name] = text;
  supervisor_.send(lossless_json(json::object{{"what", "remember"}, {"name", name}, {"text", text}}));
}

int attempt::print(std::string_view text, std::uint64_t reported) {
  constexpr std::size_t room = message_socket::bytes_max / 2;
  for (; text.size() > room; text.remove_prefix(room))
    if (!supervisor_.send(printed(text.substr(0, room), 0))) return EPIPE;
  return supervisor_.send(printed(text, reported)) ? 0 : EPIPE;
}

void attempt::start_roles(const role_orders& orders) {
  if (before_.roles && before_.roles->trainers == orders.trainers) return;
  supervisor_.send(lossless_json(json::object{{"what", "start"},
                                              {"command", json::value_from(orders.command)},
                                              {"variables", json::value_from(orders.variables)},
                                              {"servers", orders.servers},
                                              {"trainers", orders.trainers}}));
  before_.roles = orders;
}

void attempt::dead_after(std::chrono::milliseconds time) {
  report("dead after", static_cast<std::uint64_t>(time.count()));
}

void attempt::resume_by(const std::string& text) { report("resume", text); }

std::uint64_t attempt::begun(std::uint64_t from) {
  redone_now_ = before_.reached - std::min(from, before_.reached);
  from_step_ = from;
  report("begun", from);
  return redone_now_;
}

void attempt::reached(std::uint64_t step) {
  if (std::exchange(reported_step_, std::max(reported_step_, step)) < step) report("reached", step);
}

void attempt::saved(std::uint64_t step) {
  reached(step);
  has_saved_ = true;
  report("saved", step);
}

void attempt::failed(const std::string& why, bool by_device) {
  constexpr std::size_t bytes_max = 16 << 10;  // so that it fits into a message, whatever bytes it has
  report(by_device ? "device failed" : "failed", why.substr(0, bytes_max));
}

void attempt::goes_on_with(std::uint32_t trainers) { report("trainers", trainers); }

std::optional<std::string> attempt::hopeless() {
  const auto got = supervisor_.receive(std::chrono::milliseconds(0));
  if (!got) return std::nullopt;
  return json::value_to<std::string>(read_note(got->text).at("hopeless"));
}

roles_end attempt::finish_roles(bool done) {
  report("over", done ? 1 : 0);
  roles_end end;
  // The supervisor lives as long as this process, and limits the time.
  constexpr std::chrono::seconds longest{10};
  while (const auto got = supervisor_.receive(longest)) {
    const json::object what = read_note(got->text);
    if (!what.contains("peak_rss_mib")) continue;
    end.peak_rss_mib = json::value_to<double>(what.at("peak_rss_mib"));
    end.lines = json::value_to<std::vector<std::string>>(what.at("lines"));
    break;
  }
  is_over = true;
  return end;
}

}  // namespace troupe::launch
