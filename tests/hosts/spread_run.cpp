#include "tests/hosts/spread_run.hpp"

#include <gtest/gtest.h>

#include <csignal>
#include <stdexcept>
#include <utility>

namespace troupe::hosts {

namespace {

using namespace end_to_end;

// From a failure to the end of all processes; its detection may take as long as --dead-after. Far more than needed, and
// far less than if nothing detected it.
constexpr std::chrono::seconds timeout{20};

std::string error_line(const end_to_end::outcome& from) {
  EXPECT_TRUE(from.in_time);
  EXPECT_EQ(from.exit_code, 1) << from.err;
  return line_with(from.err, "troupe: error: ");
}

}  // namespace

end_to_end::launch with_token() {
  end_to_end::launch how;
  how.environment = {{"TROUPE_TOKEN", "a token that one run's processes share"}};
  return how;
}

std::string digest_of_one_process(const args& job) {
  const auto done = end_to_end::last_event(end_to_end::run(with({"train", "--json"}, job)), "done");
  return done.contains("weights_digest") ? std::string(done.at("weights_digest").as_string()) : "no digest";
}

std::string line_with(const std::string& text, const std::string& part) {
  for (const std::string& line : end_to_end::lines_of(text))
    if (line.find(part) != std::string::npos) return line;
  ADD_FAILURE() << "no line with '" << part << "' in:\n" << text;
  return {};
}

std::unique_ptr<end_to_end::program> start_on(const host* where, const args& arguments) {
  std::optional<host::visit> there;
  if (where != nullptr) there.emplace(*where);
  return std::make_unique<end_to_end::program>(arguments, with_token());
}

spread_run::spread_run(args job, args network, const host* on, const std::string& address)
    : network_(std::move(network)), where_{address, 0} {
  master_ = start_on(on, with(with({"master", "--listen", links::to_string(where_), "--json"}, job), network_));
  const std::string begin = "listening on ";
  if (!master_->wait_for_error(begin) || !master_->wait_for_error(" for "))
    throw std::runtime_error("the master does not listen: " + master_->error());
  const std::string line = line_with(master_->error(), begin);
  const std::size_t at = line.find(begin) + begin.size();
  where_ = links::parse_endpoint(line.substr(at, line.find(" for ", at) - at)).value();
}

end_to_end::program& spread_run::join(const std::string& role, const place& at) {
  const args asked = {"join", links::to_string(at.master.value_or(where_)), "--as", role};
  members_.push_back(start_on(at.on, with(with(asked, network_), at.options)));
  end_to_end::program& made = *members_.back();
  if (!made.wait_for_error("joined as " + role)) throw std::runtime_error("it does not join: " + made.error());
  return made;
}

void spread_run::kill(std::size_t member) {
  members_.at(member)->send(SIGKILL);
  members_.erase(members_.begin() + static_cast<std::ptrdiff_t>(member));
}

void spread_run::wait_until_it_trains() {
  EXPECT_TRUE(master_->wait_for_output("\"event\":\"epoch\"")) << master_->error();
}

std::string spread_run::finish() {
  const end_to_end::outcome led = master_->finish();
  EXPECT_EQ(led.exit_code, 0) << led.err;
  for (const auto& one : members_) {
    const end_to_end::outcome taken_part = one->finish();
    EXPECT_EQ(taken_part.exit_code, 0) << taken_part.err;
  }
  const auto done = end_to_end::last_event(led, "done");
  return done.contains("weights_digest") ? std::string(done.at("weights_digest").as_string()) : "none";
}

spread_run::failure spread_run::finish_failed() {
  const auto begin = std::chrono::steady_clock::now();
  failure told{error_line(master_->finish()), {}};
  for (const auto& one : members_) told.members.push_back(error_line(one->finish()));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, timeout);
  return told;
}

}  // namespace troupe::hosts
