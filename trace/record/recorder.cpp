#include "trace/record/recorder.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <cstring>
#include <system_error>

#include "base/digest.hpp"
#include "base/host.hpp"
#include "base/lossless_json.hpp"
#include "base/private_folder.hpp"
#include "base/text.hpp"
#include "trace/record/clock.hpp"
#include "trace/record/names.hpp"
#include "trace/record/trace_file.hpp"

namespace troupe::trace {

namespace {

boost::json::object first_metadata(const recorder::options& how) {
  boost::json::object all;
  all["host"] = host_name();
  all["boot"] = this_boot();
  all["ticks_per_second"] = ticks_per_second();
  constexpr std::size_t command_bytes_max = 4096;  // only readers use it, and jobs need the room
  all["command"] = how.command.substr(0, command_bytes_max);
  all["mode"] = name_of(how.what);
  all["filtered"] = !how.wanted.takes_all();
  boost::json::array types;
  for (const message_type& type : how.types) types.push_back(boost::json::array{type.number, type.name, 0});
  all["types"] = std::move(types);
  return all;
}

/// Removes the longest entry, or, if that is a job, its longest setting, and returns the name.
std::string remove_longest(boost::json::object& from) {
  const auto longest = std::ranges::max_element(from, {}, [](const auto& one) {
    return one.key() == "types" || one.key() == left_out_key ? 0 : lossless_json(one.value()).size();
  });
  std::string name(longest->key());
  boost::json::object* const settings = longest->value().if_object();
  if (name == "job" && settings != nullptr && !settings->empty()) return "job." + remove_longest(*settings);
  from.erase(longest);
  return name;
}

}  // namespace

result<std::unique_ptr<recorder>> recorder::start(options how) {
  std::unique_ptr<recorder> made(new recorder);
  if (const int code = make_own_folder(how.folder); code != 0)
    return bad_input("{}: the folder cannot be made: {}", how.folder.string(), std::strerror(code));
  const std::string name = fmt::format("{}-{}", host_name_in_files(), ::getpid());
  // A test may record several nodes in one process.
  std::filesystem::path file = how.folder / (name + ".ring");
  for (int i = 2;
       std::filesystem::exists(file) || std::filesystem::exists(how.folder / (file.stem().string() + ".log")); ++i)
    file = how.folder / fmt::format("{}.{}.ring", name, i);
  TROUPE_TRY(opened, ring::create({.file = file, .bytes = how.ring_bytes}));
  made->ring_ = std::move(opened);
  made->metadata_ = first_metadata(how);
  made->metadata_["ring_chunks"] = made->ring_->chunks();
  made->write_metadata();
  if (how.what == mode::full || how.what == mode::payload) {
    made->log_ = std::make_unique<log_writer>(*made->ring_, std::filesystem::path(file).replace_extension(".log"));
    if (const std::string problem = made->log_->problem(); !problem.empty()) {
      std::error_code ignored;
      std::filesystem::remove(file, ignored);
      return bad_input(problem);
    }
  }
  made->takes_all_ = how.wanted.types.empty() && how.wanted.first_step == 0 && how.wanted.last_step == UINT64_MAX &&
                     how.wanted.count == UINT64_MAX;
  for (const message_type& type : how.types) {
    if (made->type_wanted_.size() <= type.number) made->type_wanted_.resize(type.number + std::size_t{1});
    made->type_wanted_[type.number] = how.wanted.takes_type(type.name);
  }
  made->how_ = std::move(how);
  return made;
}

recorder::~recorder() {
  if (!ring_) return;  // creating it failed
  if (!is_finished_) finish(false);
  if (!clean_ || !problem().empty()) return;
  std::error_code ignored;
  std::filesystem::remove(ring_->file(), ignored);
}

void recorder::set_run(std::uint64_t run, std::uint32_t node, std::uint32_t incarnation) {
  file_head& head = ring_->head();
  head.node.store(node, std::memory_order_relaxed);
  head.incarnation.store(incarnation, std::memory_order_relaxed);
  head.run.store(run, std::memory_order_release);
}

void recorder::describe(std::string_view key, boost::json::value what) {
  const std::lock_guard lock(metadata_mutex_);
  metadata_[key] = std::move(what);
  write_metadata();
}

/// Entries without room are left out and named, so that readers do not take them for absent.
void recorder::write_metadata() {
  std::string text = lossless_json(metadata_);
  boost::json::object shorter;
  boost::json::array left_out;
  while (text.size() > metadata_bytes) {
    if (shorter.empty()) shorter = metadata_;
    left_out.emplace_back(remove_longest(shorter));
    shorter[left_out_key] = left_out;
    text = lossless_json(shorter);
  }
  ring_->set_metadata(text);
}

std::uint16_t recorder::number_of(std::string_view name) {
  constexpr std::size_t names_max = 1000;
  constexpr std::size_t bytes_max = 40;  // so that all fit into the metadata
  const std::lock_guard lock(metadata_mutex_);
  if (const auto known = given_names_.find(name); known != given_names_.end()) return known->second;
  const std::string shown = given_names_.size() < names_max ? one_line(std::string(name.substr(0, bytes_max))) : "more";
  std::uint64_t place = digest_of(reinterpret_cast<const std::byte*>(shown.data()), shown.size());
  const auto number = [&] {
    return static_cast<std::uint16_t>(given_names_begin + place % (given_names_end - given_names_begin));
  };
  auto entry = shown_names_.try_emplace(number(), shown);
  for (; !entry.second && entry.first->second != shown; entry = shown_names_.try_emplace(number(), shown)) ++place;
  if (given_names_.size() < names_max) given_names_.emplace(name, number());
  if (!entry.second) return number();
  boost::json::object names;
  for (const auto& [key, text] : shown_names_) names[std::to_string(key)] = text;
  metadata_["names"] = std::move(names);
  write_metadata();
  return number();
}

void recorder::finish(bool clean) {
  is_finished_ = true;
  clean_ = clean;
  ring_->head().end.store(clean ? ending::clean : ending::failed, std::memory_order_release);
  if (log_) log_->finish();
}

std::pair<std::uint64_t, std::uint64_t> recorder::lost() const {
  if (!log_) return {};
  const file_head& head = std::as_const(*ring_).head();
  return {head.chunks_lost.load(std::memory_order_relaxed) * records_per_chunk,
          head.contents_lost.load(std::memory_order_relaxed)};
}

bool recorder::wants_payload(std::string_view actor) const {
  return how_.what == mode::payload &&
         (how_.payload_actors.empty() || std::ranges::any_of(how_.payload_actors, [actor](const std::string& pattern) {
            return matches(pattern, actor);
          }));
}

bool recorder::wants_filtered(std::uint16_t type, std::uint64_t step) noexcept {
  if (!how_.wanted.takes_step(step)) return false;
  if (!(type < type_wanted_.size() ? type_wanted_[type] : how_.wanted.types.empty())) return false;
  return how_.wanted.count == UINT64_MAX || (taken_.load(std::memory_order_relaxed) < how_.wanted.count &&
                                             taken_.fetch_add(1, std::memory_order_relaxed) < how_.wanted.count);
}

}  // namespace troupe::trace
