// The program with deliberate faults, for tests of how they are reported. TROUPE_FAULTS lists them, separated by
// semicolons, each a name with settings.
//
//   slow-apply server=1 first=10 last=20 ms=50
//   lose type=gradient sender=3 step=5          (the first such gradient to another process)
//   skip-reduce rank=1 step=4
//   flip rank=1 step=7                          (the lowest bit of the first number of the table gradients)
//   impersonate rank=1 step=4 as=0              (sends its table gradients in that trainer's name)
//   die actor=server-0 at=17 once=FILE          (before its 17th message; once: in the process that creates FILE)
//                                               (actor=trainer-1-sends: before it sends its 17th table gradient;
//                                               actor=server-0-applies: before it applies its 17th step)
//   abort actor=server-0 at=17 once=FILE        (the same, by SIGABRT)
//   throw actor=server-0 at=17                  (an exception, from the handler of its 17th message)
//   hang actor=server-0 at=17 once=FILE         (the handler of its 17th message never returns)
//   clock trainer=1 offset-ms=3000 ppm=50       (in the process of that rank of --processes)

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <caf/type_id.hpp>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "actors/common/faults.hpp"
#include "apps/subcommand.hpp"
#include "cluster/launch/console.hpp"
#include "protocol/message_types.hpp"
#include "trace/record/clock.hpp"

namespace {

struct wanted_fault {
  std::string name;
  std::map<std::string, std::string> settings;

  std::uint64_t number(const std::string& key) const {
    const auto found = settings.find(key);
    return found == settings.end() ? 0 : std::stoull(found->second);
  }
};

std::vector<wanted_fault> read_faults() {
  std::vector<wanted_fault> all;
  const char* text = std::getenv("TROUPE_FAULTS");
  std::istringstream lines(text != nullptr ? text : "");
  for (std::string line; std::getline(lines, line, ';');) {
    std::istringstream args(line);
    wanted_fault one;
    args >> one.name;
    for (std::string word; args >> word;) {
      const std::size_t equals = word.find('=');
      one.settings[word.substr(0, equals)] = word.substr(equals + 1);
    }
    all.push_back(std::move(one));
  }
  return all;
}

class injector : public troupe::actors::fault_injector {
 public:
  explicit injector(std::vector<wanted_fault> all) : all_(std::move(all)) {}

  void handles(std::string_view actor, std::uint16_t) override { end_if_wanted(actor); }

  void applying(std::uint32_t rank, std::uint64_t step) override {
    end_if_wanted("server " + std::to_string(rank) + " applies");
    for (const wanted_fault& one : all_)
      if (one.name == "slow-apply" && one.number("server") == rank && step >= one.number("first") &&
          step <= one.number("last"))
        std::this_thread::sleep_for(std::chrono::milliseconds(one.number("ms")));
  }

  bool loses(const troupe::msg::header& head, std::uint16_t type) override {
    for (const wanted_fault& one : all_)
      if (one.name == "lose" && one.settings.at("type") == troupe::protocol::message_name(type) &&
          one.number("sender") == head.sender && one.number("step") == head.step && !lost_.exchange(true))
        return true;
    return false;
  }

  bool skips_reduce(std::uint32_t rank, std::uint64_t step, std::uint32_t bucket) override {
    for (const wanted_fault& one : all_)
      if (one.name == "skip-reduce" && one.number("rank") == rank && one.number("step") == step && bucket == 0)
        return true;
    return false;
  }

  void gradient(std::uint32_t rank, std::uint64_t step, std::span<float> grad) override {
    for (const wanted_fault& one : all_) {
      if (one.name != "flip" || one.number("rank") != rank || one.number("step") != step || grad.empty()) continue;
      std::uint32_t bits = 0;
      std::memcpy(&bits, grad.data(), sizeof bits);
      bits ^= 1U;
      std::memcpy(grad.data(), &bits, sizeof bits);
    }
  }

  void signs(std::uint32_t rank, std::uint64_t step, troupe::msg::gradient& message) override {
    end_if_wanted("trainer " + std::to_string(rank) + " sends");
    for (const wanted_fault& one : all_) {
      if (one.name != "impersonate" || one.number("rank") != rank || one.number("step") != step) continue;
      message.rank = static_cast<std::uint32_t>(one.number("as"));
      message.head.sender += message.rank - rank;
    }
  }

 private:
  /// Ends the process or its actor if a fault is due here.
  void end_if_wanted(std::string_view place) {
    for (const wanted_fault& one : all_) {
      const bool ends = one.name == "die" || one.name == "abort" || one.name == "throw" || one.name == "hang";
      if (!ends || one.settings.at("actor") != with_dashes(place) || reached_.fetch_add(1) + 1 != one.number("at") ||
          !is_first(one))
        continue;
      if (one.name == "throw") throw std::runtime_error("thrown on purpose");
      if (one.name == "abort") std::abort();
      while (one.name == "hang") ::pause();
      ::kill(::getpid(), SIGKILL);
    }
  }

  static std::string with_dashes(std::string_view actor) {
    std::string name(actor);
    std::ranges::replace(name, ' ', '-');
    return name;
  }

  /// Whether this process is the first with this fault; always true for faults without `once`.
  static bool is_first(const wanted_fault& one) {
    const auto file = one.settings.find("once");
    constexpr mode_t mode = 0600;
    return file == one.settings.end() || ::open(file->second.c_str(), O_CREAT | O_EXCL | O_CLOEXEC, mode) >= 0;
  }

  const std::vector<wanted_fault> all_;
  std::atomic<std::uint64_t> reached_ = 0;  ///< how often a fault's trigger was reached
  std::atomic<bool> lost_ = false;
};

/// Whether --processes started this process with this role and rank.
bool plays(const std::vector<std::string>& arguments, const std::string& role, std::uint64_t rank) {
  for (std::size_t i = 0; i + 3 < arguments.size(); ++i)
    if (arguments[i] == "--role" && arguments[i + 1] == role && arguments[i + 3] == std::to_string(rank)) return true;
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  const auto started = std::chrono::steady_clock::now();
  const std::vector<std::string> arguments(argv + (argc > 0 ? 1 : 0), argv + argc);
  const std::vector<wanted_fault> wanted = read_faults();
  for (const wanted_fault& one : wanted)
    if (one.name == "clock" && plays(arguments, "trainer", one.number("trainer")))
      troupe::trace::set_clock_fault(
          {static_cast<std::int64_t>(one.number("offset-ms")) * 1'000'000, static_cast<double>(one.number("ppm"))});
  injector faults(wanted);
  troupe::actors::install_faults(&faults);
  troupe::apps::prepare_streams();
  return troupe::apps::run_command_line(arguments, started);
}
