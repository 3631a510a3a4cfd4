#include "tests/simulation/sim_disk.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include "base/assert.hpp"

namespace troupe::simulation {
namespace {

namespace fs = std::filesystem;

sim_disk* the_disk = nullptr;

std::string parent_of(const std::string& path) { return fs::path(path).parent_path(); }

std::string without_slash(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

/// Draws which of `count` items survive a power cut: a prefix or any subset.
std::vector<bool> left_of(std::size_t count, model::random_sequence& random) {
  std::vector<bool> left(count);
  const bool is_prefix = random.below(2) == 0;
  const std::size_t first = random.below(count + 1);
  for (std::size_t i = 0; i < count; ++i) left[i] = is_prefix ? i < first : random.below(2) == 0;
  return left;
}

}  // namespace

sim_disk* disk() { return the_disk; }

sim_disk::sim_disk() {
  TROUPE_ASSERT(the_disk == nullptr);
  std::error_code none;
  const fs::path memory = "/dev/shm";
  std::string pattern = ((fs::is_directory(memory, none) ? memory : fs::temp_directory_path()) / "sim-XXXXXX").string();
  root_ = ::mkdtemp(pattern.data());
  the_disk = this;
}

sim_disk::~sim_disk() {
  the_disk = nullptr;
  std::error_code none;
  fs::remove_all(root_, none);
}

bool sim_disk::is_here(const char* path) const {
  return path == root_ || std::string_view(path).starts_with(root_ + "/");
}

/// Returns false and sets errno if the call must fail.
bool sim_disk::may_call() {
  if (dead_) {
    errno = EIO;
    return false;
  }
  if (to_fail_ == 0) return true;
  if (skipped_ > 0) {
    --skipped_;
    return true;
  }
  --to_fail_;
  failed_ = true;
  errno = ENOSPC;
  return false;
}

void sim_disk::fail(std::uint64_t skipped, std::uint64_t count) {
  skipped_ = skipped;
  to_fail_ = count;
}

void sim_disk::release(std::uint32_t process) {
  for (const auto& [number, one] : open_)
    if (one.process == process) ::flock(number, LOCK_UN);
}

// -- calls --------------------------------------------------------------------------------

void sim_disk::opened(int descriptor, const char* path, bool created) {
  const std::string name = without_slash(path);
  if (created && !seen_.contains(name)) {
    const file_ptr made = std::make_shared<file>();
    seen_[name] = made;
    unsynced_.push_back({change::kind::add, name, {}, made});
  }
  const auto known = seen_.find(name);
  open_[descriptor] = {process_, name, known == seen_.end() ? nullptr : known->second};
}

void sim_disk::written(int descriptor, const void* bytes, std::size_t count) {
  const file_ptr& what = open_.at(descriptor).what;
  if (what) what->unsynced.emplace_back(static_cast<const char*>(bytes), count);
}

void sim_disk::synced(int descriptor) {
  const auto& [process, path, what] = open_.at(descriptor);
  const bool is_folder = what == nullptr || what->is_folder;
  if (is_folder ? forgotten_ == forgotten_sync::of_folders : forgotten_ == forgotten_sync::of_files) return;
  if (!is_folder) {
    for (const std::string& piece : std::exchange(what->unsynced, {})) what->on_disk += piece;
    return;
  }
  std::vector<change> others;
  for (change& one : unsynced_) {
    if (parent_of(one.path) == path)
      apply(one);
    else
      others.push_back(std::move(one));
  }
  unsynced_ = std::move(others);
}

void sim_disk::made_folder(const char* path) {
  const std::string name = without_slash(path);
  const file_ptr made = std::make_shared<file>();
  made->is_folder = true;
  seen_[name] = made;
  unsynced_.push_back({change::kind::add, name, {}, made});
}

/// Requires: both paths are in the same folder.
void sim_disk::renamed(const char* from, const char* to) {
  TROUPE_ASSERT(parent_of(from) == parent_of(to));
  auto moved = seen_.extract(from);
  if (moved.empty()) return;
  seen_[to] = moved.mapped();
  unsynced_.push_back({change::kind::rename, from, to, moved.mapped()});
}

void sim_disk::unlinked(const char* path) {
  const std::string name = without_slash(path);
  seen_.erase(name);
  unsynced_.push_back({change::kind::remove, name, {}, nullptr});
}

// -- the power ----------------------------------------------------------------------------

void sim_disk::apply(const change& one) {
  switch (one.what) {
    case change::kind::add:
      on_disk_[one.path] = one.added;
      break;
    case change::kind::rename:
      on_disk_.erase(one.path);
      on_disk_[one.to] = one.added;
      break;
    case change::kind::remove:
      on_disk_.erase(one.path);
      break;
  }
}

void sim_disk::cut_power(model::random_sequence& random) {
  const auto left = left_of(unsynced_.size(), random);
  for (std::size_t i = 0; i < unsynced_.size(); ++i)
    if (left[i]) apply(unsynced_[i]);
  unsynced_.clear();
  // Removes entries whose folder is gone, and everything below.
  for (auto one = on_disk_.begin(); one != on_disk_.end();) {
    const std::string above = parent_of(one->first);
    one = above == root_ || on_disk_.contains(above) ? std::next(one) : on_disk_.erase(one);
  }
  for (const auto& [path, what] : on_disk_) {
    const std::vector<std::string> pieces = std::exchange(what->unsynced, {});
    const auto kept = left_of(pieces.size(), random);
    std::string bytes;
    for (std::size_t i = 0; i < pieces.size(); ++i)
      if (kept[i])
        what->on_disk += std::exchange(bytes, {}) + pieces[i];
      else
        bytes.append(pieces[i].size(), '\0');  // a hole, if data follow
  }
  seen_ = on_disk_;
  open_.clear();  // the processes that had them open are dead
  write_back();
}

/// Sets the folder's contents to what is on the disk.
void sim_disk::write_back() const {
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(root_)) fs::remove_all(entry.path(), none);
  for (const auto& [path, what] : on_disk_) {
    if (what->is_folder)
      fs::create_directory(path, none);
    else
      std::ofstream(path, std::ios::binary) << what->on_disk;
  }
}

}  // namespace troupe::simulation

extern "C" {

int __real_open(const char* path, int flags, ...);
ssize_t __real_write(int descriptor, const void* bytes, size_t count);
int __real_fsync(int descriptor);
int __real_close(int descriptor);
int __real_mkdir(const char* path, mode_t mode);
int __real_rename(const char* from, const char* to);
int __real_unlink(const char* path);
int __real_rmdir(const char* path);

int __wrap_open(const char* path, int flags, ...) {
  mode_t mode = 0;
  if ((flags & O_CREAT) != 0) {
    va_list more;
    va_start(more, flags);
    mode = va_arg(more, mode_t);
    va_end(more);
  }
  auto* const on = troupe::simulation::disk();
  if (on == nullptr || !on->is_here(path)) return __real_open(path, flags, mode);
  const bool writes = (flags & O_CREAT) != 0;
  if (writes && !on->may_call()) return -1;
  const int made = __real_open(path, flags, mode);
  if (made >= 0 && (writes || (flags & O_DIRECTORY) != 0)) on->opened(made, path, writes);
  return made;
}

ssize_t __wrap_write(int descriptor, const void* bytes, size_t count) {
  auto* const on = troupe::simulation::disk();
  if (on == nullptr || !on->is_open(descriptor)) return __real_write(descriptor, bytes, count);
  if (!on->may_call()) return -1;
  // Writes one piece at a time, like a disk.
  constexpr size_t piece = 512;
  const ssize_t done = __real_write(descriptor, bytes, count < piece ? count : piece);
  if (done > 0) on->written(descriptor, bytes, static_cast<size_t>(done));
  return done;
}

int __wrap_fsync(int descriptor) {
  auto* const on = troupe::simulation::disk();
  if (on == nullptr || !on->is_open(descriptor)) return __real_fsync(descriptor);
  if (!on->may_call()) return -1;
  on->synced(descriptor);
  return 0;
}

int __wrap_close(int descriptor) {
  if (auto* const on = troupe::simulation::disk(); on != nullptr) on->closed(descriptor);
  return __real_close(descriptor);
}

int __wrap_mkdir(const char* path, mode_t mode) {
  auto* const on = troupe::simulation::disk();
  if (on == nullptr || !on->is_here(path)) return __real_mkdir(path, mode);
  if (!on->may_call()) return -1;
  const int done = __real_mkdir(path, mode);
  if (done == 0) on->made_folder(path);
  return done;
}

int __wrap_rename(const char* from, const char* to) {
  auto* const on = troupe::simulation::disk();
  if (on == nullptr || !on->is_here(from)) return __real_rename(from, to);
  if (!on->may_call()) return -1;
  const int done = __real_rename(from, to);
  if (done == 0) on->renamed(from, to);
  return done;
}

int __wrap_unlink(const char* path) {
  auto* const on = troupe::simulation::disk();
  if (on == nullptr || !on->is_here(path)) return __real_unlink(path);
  if (!on->may_call()) return -1;
  const int done = __real_unlink(path);
  if (done == 0) on->unlinked(path);
  return done;
}

int __wrap_rmdir(const char* path) {
  auto* const on = troupe::simulation::disk();
  if (on == nullptr || !on->is_here(path)) return __real_rmdir(path);
  if (!on->may_call()) return -1;
  const int done = __real_rmdir(path);
  if (done == 0) on->removed_folder(path);
  return done;
}

}  // extern "C"
