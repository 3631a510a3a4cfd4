#include "model/checkpoint/store.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <random>
#include <utility>

#include "base/host.hpp"
#include "base/input_files.hpp"
#include "base/result.hpp"
#include "base/text.hpp"
#include "model/checkpoint/names.hpp"
#include "model/output_file.hpp"

namespace troupe::model {

namespace {

namespace fs = std::filesystem;

tl::unexpected<fault> refuse(const std::string& path, const std::string& why) {
  return bad_input("{}: {}", printable_path(path), why);
}

/// Makes a folder and its parents. Syncs each to disk before using it.
result<void> make_folders(const fs::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0) {
    if (S_ISDIR(status.st_mode)) return {};
    return refuse(path, "is not a folder: checkpoints need one");
  }
  const fs::path above = path.has_parent_path() ? path.parent_path() : fs::path(".");
  if (errno == ENOENT && above != path) {
    if (auto done = make_folders(above); !done) return done;
  }
  if (::mkdir(path.c_str(), 0777) != 0 && errno != EEXIST)
    return refuse(path, fmt::format("making the folder: {}", std::strerror(errno)));
  return sync_folder(above);
}

/// Removes the tensor files of a folder, then the folder if it is empty.
void remove_files_folder(const std::string& path) {
  std::error_code ignored;
  if (!fs::is_directory(fs::symlink_status(path, ignored))) return;
  std::vector<fs::path> ours;
  for (fs::directory_iterator entry(path, ignored), end; !ignored && entry != end; entry.increment(ignored))
    if (is_checkpoint_file(entry->path().filename().native())) ours.push_back(entry->path());
  for (const fs::path& file : ours) ::unlink(file.c_str());
  ::rmdir(path.c_str());
}

std::string read_owner(int lock) {
  std::array<char, 512> owner{};
  const ssize_t size = ::pread(lock, owner.data(), owner.size(), 0);
  return {owner.data(), static_cast<std::size_t>(std::max<ssize_t>(size, 0))};
}

/// Writes the owner and a unique number into the lock file; returns its new content.
std::string write_owner(int lock) {
  std::random_device random;
  const std::string owner = fmt::format("host {}, pid {}\n{:08x}{:08x}", host_name(), ::getpid(), random(), random());
  if (::ftruncate(lock, 0) == 0) (void)!::pwrite(lock, owner.data(), owner.size(), 0);
  return read_owner(lock);
}

/// Returns the owner, as in ` (host a, pid 17)`; empty if the file has none.
std::string owner_text(int lock) {
  const std::string owner = read_owner(lock);
  return owner.empty() ? "" : fmt::format(" ({})", printable(owner.substr(0, owner.find('\n'))));
}

}  // namespace

// -- opening ------------------------------------------------------------------

result<checkpoint_store> checkpoint_store::open(const std::string& directory, const resume_point* resumed, int lock) {
  if (directory.empty()) return bad_input("the folder for checkpoints has no name");
  // A slash at the end would make the folder its own parent.
  std::string bare = directory;
  while (bare.size() > 1 && bare.back() == '/') bare.pop_back();
  if (auto made = make_folders(bare); !made) return bad_input(std::move(made.error().message));
  checkpoint_store store(std::move(bare));
  store.lock_ = lock;
  TROUPE_DO(store.lock());
  TROUPE_DO(store.check_vacant(resumed));
  return store;
}

checkpoint_store::checkpoint_store(checkpoint_store&& other) noexcept
    : directory_(std::move(other.directory_)),
      lock_(std::exchange(other.lock_, -1)),
      owner_(std::move(other.owner_)),
      torn_(std::move(other.torn_)),
      step_(other.step_),
      begun_(std::exchange(other.begun_, {})) {}

checkpoint_store& checkpoint_store::operator=(checkpoint_store&& other) noexcept {
  std::swap(directory_, other.directory_);
  std::swap(lock_, other.lock_);
  std::swap(owner_, other.owner_);
  std::swap(torn_, other.torn_);
  std::swap(step_, other.step_);
  std::swap(begun_, other.begun_);
  return *this;
}

checkpoint_store::~checkpoint_store() {
  abandon();
  if (lock_ >= 0) ::close(lock_);
}

result<void> checkpoint_store::lock() {
  if (lock_ >= 0) {
    owner_ = write_owner(lock_);
    return {};
  }
  constexpr mode_t owner_only = 0600;  // otherwise another user could hold the lock
  const std::string name = path(checkpoint_lock_name);
  lock_ = ::open(name.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, owner_only);
  if (lock_ < 0) {
    const int error = errno;
    struct stat there {};
    const bool is_foreign =
        ::lstat(name.c_str(), &there) == 0 && (S_ISLNK(there.st_mode) || there.st_uid != ::geteuid());
    if (is_foreign)
      return refuse(
          name, "is a link or another user's: remove it if no run saves its checkpoints there, or name another folder");
    return refuse(directory_, fmt::format("checkpoints cannot be written there: {}", std::strerror(error)));
  }
  if (const auto input = input_behind(lock_)) return refuse(name, fmt::format("is {}; name another folder", *input));
  (void)::fchmod(lock_, owner_only);  // for an existing file; fails for another user's
  if (::flock(lock_, LOCK_EX | LOCK_NB) == 0) {
    owner_ = write_owner(lock_);
    return {};
  }
  if (errno == EWOULDBLOCK)
    return refuse(directory_,
                  fmt::format("another run{} saves its checkpoints there now; wait for its end, or name another folder",
                              owner_text(lock_)));
  return refuse(path(checkpoint_lock_name), std::strerror(errno));
}

/// Refuses the save of a process that was believed dead, and has woken while a later attempt runs.
result<void> checkpoint_store::check_owner() const {
  if (read_owner(lock_) == owner_) return {};
  return run_fault("checkpoint step {} in {}: another attempt at the run{} saves there now", step_,
                   printable_path(directory_), owner_text(lock_));
}

result<void> checkpoint_store::check_vacant(const resume_point* resumed) {
  TROUPE_TRY(steps, checkpoint_steps(directory_));
  std::error_code ignored;
  const bool here = resumed != nullptr && fs::equivalent(resumed->what.directory, directory_, ignored);
  if (!here) {
    if (steps.empty()) return {};
    return refuse(
        directory_,
        fmt::format(
            "holds checkpoints of a run already (newest step {}): continue it by --resume {}, or name another folder",
            steps.front(), printable_path(directory_)));
  }
  torn_.insert(resumed->torn.begin(), resumed->torn.end());
  const auto newest = std::ranges::find_if(steps, [this](std::uint64_t step) { return !torn_.contains(step); });
  if (newest != steps.end() && *newest == resumed->what.manifest.step) return {};
  return refuse(directory_,
                fmt::format("another run has saved there since the checkpoint of step {} was read; start again",
                            resumed->what.manifest.step));
}

// -- saving -------------------------------------------------------------------

result<std::string> checkpoint_store::begin(std::uint64_t step) {
  abandon();
  // Never an existing folder, which may belong to a checkpoint of the same step.
  constexpr int attempts = 100;
  std::random_device random;
  std::string name;
  for (int attempt = 0; attempt < attempts; ++attempt) {
    name = files_folder_name(step, random());
    if (::mkdir(path(name).c_str(), 0777) == 0) {
      step_ = step;
      begun_ = std::move(name);
      return path(begun_);
    }
    if (errno != EEXIST) break;
  }
  return run_fault("{}: making the folder: {}", printable_path(path(name)), std::strerror(errno));
}

result<void> checkpoint_store::commit(checkpoint_manifest manifest) {
  manifest.folder = begun_;
  std::vector<saved_file> in_order;
  for (const std::string& name : file_names(manifest)) {
    const auto found = std::ranges::find(manifest.files, name, &saved_file::name);
    if (found != manifest.files.end()) in_order.push_back(*found);
  }
  if (in_order.size() == manifest.files.size()) manifest.files = std::move(in_order);

  auto done = write_manifest(manifest);
  if (!done) {
    abandon();
    return done;
  }
  begun_.clear();
  torn_.erase(manifest.step);
  if (auto synced = sync_folder(directory_); !synced) return synced;
  remove_old(manifest);
  return {};
}

result<void> checkpoint_store::write_manifest(const checkpoint_manifest& manifest) {
  const auto fail = [&](const std::string& why) {
    return run_fault("checkpoint step {} in {}: {}", manifest.step, printable_path(directory_), why);
  };
  if (begun_.empty() || step_ != manifest.step) return fail("was not begun");
  const std::string text = to_text(manifest);
  // Commits only what can be read back.
  if (const auto parsed = parse_manifest(text); !parsed) return fail("its manifest: " + parsed.error().message);
  const auto damage = find_damage({directory_, manifest}, inspection_depth::headers);
  if (!damage.faults.empty()) return fail(damage.faults.front());
  if (auto done = sync_folder(path(begun_)); !done) return done;

  const std::string uncommitted = path(uncommitted_manifest_name(manifest.step));
  TROUPE_DO(write_whole_file(uncommitted, std::as_bytes(std::span(text))));
  if (auto ours = check_owner(); !ours) return ours;
  const std::string committed = path(manifest_name(manifest.step));
  if (::rename(uncommitted.c_str(), committed.c_str()) != 0)
    return run_fault("{}: renaming it: {}", printable_path(uncommitted), std::strerror(errno));
  return {};
}

void checkpoint_store::abandon() {
  if (begun_.empty()) return;
  ::unlink(path(uncommitted_manifest_name(step_)).c_str());
  remove_files_folder(path(begun_));
  begun_.clear();
}

// A failure to remove a file is ignored; the next commit tries again.
void checkpoint_store::remove_old(const checkpoint_manifest& newest) const {
  const auto steps = checkpoint_steps(directory_);
  if (!steps) return;
  const auto previous =
      std::ranges::find_if(*steps, [&](std::uint64_t step) { return step < newest.step && !torn_.contains(step); });
  const auto kept = [&](std::uint64_t step) {
    return step == newest.step || (previous != steps->end() && step == *previous);
  };
  std::error_code ignored;
  std::vector<std::string> names;
  for (fs::directory_iterator entry(directory_, ignored), end; !ignored && entry != end; entry.increment(ignored))
    names.push_back(entry->path().filename());
  // Manifests first, because a manifest without files is a torn checkpoint.
  for (const std::string& name : names) {
    const auto step = step_of_manifest(name);
    if ((step && !kept(*step)) || step_of_uncommitted_manifest(name)) ::unlink(path(name).c_str());
  }
  for (const std::string& name : names) {
    const auto step = step_of_files_folder(name);
    // The previous step may also have an uncommitted folder; it is removed together with that step.
    if (step && (*step == newest.step ? name != newest.folder : !kept(*step))) remove_files_folder(path(name));
  }
}

}  // namespace troupe::model
