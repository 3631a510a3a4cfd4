// A simulated disk: a folder in this machine's memory; writing calls of this program are intercepted (--wrap, see
// CMakeLists.txt). The folder has what running processes see. In addition, this class knows what is on the disk: what
// has been synced, and any part of the rest.
//
// A file's bytes are on the disk once the file is synced; its name, once its folder is synced. Of unsynced writes, a
// power cut leaves a prefix or any subset, each write whole; the same holds for changes to a folder.

#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "model/random.hpp"

namespace troupe::simulation {

/// A sync that a program forgets: planted, to check that the bug is found.
enum class forgotten_sync : std::uint8_t { none, of_files, of_folders };

/// One at a time. For one thread.
class sim_disk {
 public:
  sim_disk();
  ~sim_disk();
  sim_disk(const sim_disk&) = delete;
  sim_disk& operator=(const sim_disk&) = delete;

  /// The folder of the disk, which exists from the start.
  const std::string& root() const { return root_; }

  /// Sets the calling process from now on. If it is `dead`, its calls have no effect.
  void caller(std::uint32_t process, bool dead) {
    process_ = process;
    dead_ = dead;
  }
  /// The process is gone: releases its locks.
  void release(std::uint32_t process);

  /// Lets the next `count` calls fail after `skipped` more, as on a full disk.
  void fail(std::uint64_t skipped, std::uint64_t count);
  /// Ends the failures: there is room again.
  void mend() { to_fail_ = 0; }
  /// Whether a call has failed since the last query.
  bool has_failed() { return std::exchange(failed_, false); }

  /// Cuts the power. Requires: no process runs.
  void cut_power(model::random_sequence& random);

  void forget(forgotten_sync which) { forgotten_ = which; }

  // -- calls; return whether to forward them ----------------------------------------------------

  bool is_here(const char* path) const;
  bool may_call();
  void opened(int descriptor, const char* path, bool created);
  bool is_open(int descriptor) const { return open_.contains(descriptor); }
  void written(int descriptor, const void* bytes, std::size_t count);
  void synced(int descriptor);
  void closed(int descriptor) { open_.erase(descriptor); }
  void made_folder(const char* path);
  void renamed(const char* from, const char* to);
  void unlinked(const char* path);
  void removed_folder(const char* path) { unlinked(path); }

 private:
  struct file {
    bool is_folder = false;
    std::string on_disk;
    std::vector<std::string> unsynced;  ///< appended pieces
  };
  using file_ptr = std::shared_ptr<file>;
  struct open_file {
    std::uint32_t process = 0;
    std::string path;
    file_ptr what;
  };
  /// A change of a folder's entries.
  struct change {
    enum class kind : std::uint8_t { add, rename, remove } what = kind::add;
    std::string path;
    std::string to;
    file_ptr added;
  };

  void apply(const change& one);
  void write_back() const;

  std::string root_;
  std::map<std::string, file_ptr> seen_;     ///< as running processes see them, by path
  std::map<std::string, file_ptr> on_disk_;  ///< entries
  std::vector<change> unsynced_;             ///< in order
  std::map<int, open_file> open_;
  std::uint32_t process_ = 0;
  bool dead_ = false;
  std::uint64_t skipped_ = 0;
  std::uint64_t to_fail_ = 0;
  bool failed_ = false;
  forgotten_sync forgotten_ = forgotten_sync::none;
};

/// The program's disk; null without one.
sim_disk* disk();

}  // namespace troupe::simulation
