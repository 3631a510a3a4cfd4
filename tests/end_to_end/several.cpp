#include "tests/end_to_end/several.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "tests/links/raw_socket.hpp"
#include "tests/read_file.hpp"

namespace troupe::end_to_end {

launch with_token(const std::string& token) {
  launch how;
  how.environment = {{"TROUPE_TOKEN", token}};
  return how;
}

std::vector<pid_t> children_of(pid_t parent) {
  std::vector<pid_t> all;
  std::istringstream list(read_file(fmt::format("/proc/{0}/task/{0}/children", parent)));
  for (pid_t child = 0; list >> child;) all.push_back(child);
  return all;
}

pid_t leader_of(pid_t parent) {
  for (const pid_t child : children_of(parent)) {
    const args command = proc_words(child, "cmdline");
    if (std::ranges::find(command, "--role") == command.end()) return child;
  }
  ADD_FAILURE() << "no process leads";
  return 0;
}

std::vector<boost::json::object> events_of(const outcome& from, std::string_view name) {
  std::vector<boost::json::object> found;
  for (boost::json::object& one : json_lines(from.out))
    if (one.at("event").as_string() == name) found.push_back(std::move(one));
  return found;
}

void expect_epochs(const outcome& from, std::uint64_t count) {
  std::uint64_t next = 1;
  for (const auto& one : events_of(from, "epoch")) EXPECT_EQ(one.at("epoch").to_number<std::uint64_t>(), next++);
  EXPECT_EQ(next, count + 1);
}

pid_t process_of(program& leader, const std::string& who) {
  const std::string begin = who + " (host ";
  if (!leader.wait_for_error(begin)) {
    ADD_FAILURE() << who << " has not joined:\n" << leader.error();
    return 0;
  }
  const std::string line = line_with(leader.error(), begin);
  EXPECT_NE(line.find(") has joined"), std::string::npos) << line;
  return std::stoi(line.substr(line.find(", pid ") + 6));
}

args proc_words(pid_t process, const std::string& file) {
  const std::string text = read_file("/proc/" + std::to_string(process) + "/" + file);
  args all;
  for (std::size_t at = 0; at < text.size(); at = text.find('\0', at) + 1) all.emplace_back(text.c_str() + at);
  return all;
}

std::string line_with(const std::string& text, const std::string& part) {
  for (const std::string& line : lines_of(text))
    if (line.find(part) != std::string::npos) return line;
  ADD_FAILURE() << "no line with '" << part << "' in:\n" << text;
  return {};
}

bool comes_true(const std::function<bool()>& condition) {
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > give_up) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

bool somebody_listens(const links::endpoint& where) {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = links::raw_socket::loopback(where.port);
  const bool found = ::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  ::close(socket);
  return found;
}

gathered_run::gathered_run(const args& options, args network, launch how)
    : network_(std::move(network)), how_(std::move(how)) {
  const args leads = {"master", "--listen", "127.0.0.1:0", "--json"};
  master_ = std::make_unique<program>(with(with(leads, network_), options), how_);
  const std::string begin = "troupe: listening on ";
  if (!master_->wait_for_error(begin)) {
    ADD_FAILURE() << "the master does not listen:\n" << master_->error();
    return;
  }
  const std::string line = line_with(master_->error(), begin);
  where_ = line.substr(begin.size(), line.find(' ', begin.size()) - begin.size());
}

program& gathered_run::join(const args& options, const std::vector<std::pair<std::string, std::string>>& variables) {
  launch how = how_;
  how.environment.insert(how.environment.end(), variables.begin(), variables.end());
  members_.push_back(std::make_unique<program>(with(with({"join", where_}, network_), options), how));
  return *members_.back();
}

void gathered_run::join_all(int servers, int trainers) {
  for (int i = 0; i < servers; ++i) join_as("server");
  for (int i = 0; i < trainers; ++i) join_as("trainer");
}

void gathered_run::set_aside(pid_t process) {
  const auto known = std::ranges::find(members_, process, [](const auto& one) { return one->process(); });
  ASSERT_NE(known, members_.end());
  aside_.push_back(std::move(*known));
  members_.erase(known);
}

std::vector<outcome> gathered_run::finish_members(int code) {
  std::vector<outcome> all;
  for (const auto& one : members_) {
    all.push_back(one->finish());
    EXPECT_TRUE(all.back().in_time);
    EXPECT_EQ(all.back().exit_code, code) << all.back().err;
  }
  members_.clear();
  return all;
}

std::string gathered_run::finish() {
  const std::string digest = digest_of(master_->finish());
  finish_members(0);
  return digest;
}

}  // namespace troupe::end_to_end
