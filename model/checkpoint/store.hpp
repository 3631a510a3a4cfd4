// The folder for a run's checkpoints. A save writes its files into a new folder, and the rename of its manifest commits
// it, so that a failure at any moment leaves earlier checkpoints unchanged.

#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "model/checkpoint/manifest.hpp"
#include "model/checkpoint/resume.hpp"

namespace troupe::model {

/// Thread: one at a time; between `begin` and `commit` any number of threads may write files into the folder of
/// `begin`.
class checkpoint_store {
 public:
  /// Makes `directory` with its parents if it does not exist, and locks it until the store's destruction. `resumed`:
  /// the checkpoint to resume from, in this folder or another; null for a new run. `lock`: the lock of an earlier
  /// attempt at the same run, which this store keeps; -1: no lock. Faults, kind input: not a folder, not writable,
  /// another run saves there, or it has checkpoints that this run does not resume from.
  static result<checkpoint_store> open(const std::string& directory, const resume_point* resumed, int lock = -1);

  checkpoint_store(checkpoint_store&& other) noexcept;
  checkpoint_store& operator=(checkpoint_store&& other) noexcept;
  /// Abandons an uncommitted save.
  ~checkpoint_store();

  const std::string& directory() const { return directory_; }
  /// Returns the descriptor of the locked file, for later attempts.
  int lock_descriptor() const { return lock_; }

  /// Begins the checkpoint after step `step`; returns the folder for its files.
  result<std::string> begin(std::uint64_t step);

  /// Commits the save, and removes all checkpoints except this one and the previous one. Requires: the caller has
  /// filled in everything but `folder`, and the files, listed in any order, exist. After a fault, kind run, nothing is
  /// committed and the save is removed, with one exception: if only the last sync failed, the checkpoint exists but may
  /// not survive a power loss. Refused once a later attempt at the run has opened the folder.
  result<void> commit(checkpoint_manifest manifest);

  /// Removes an uncommitted save, if there is one.
  void abandon();

 private:
  explicit checkpoint_store(std::string directory) : directory_(std::move(directory)) {}

  std::string path(const std::string& name) const { return directory_ + "/" + name; }
  result<void> lock();
  result<void> check_owner() const;
  result<void> check_vacant(const resume_point* resumed);
  result<void> write_manifest(const checkpoint_manifest& manifest);
  void remove_old(const checkpoint_manifest& newest) const;

  std::string directory_;
  int lock_ = -1;
  /// What this store has written into the locked file.
  std::string owner_;
  /// Torn checkpoints of the folder, which will be removed.
  std::set<std::uint64_t> torn_;
  std::uint64_t step_ = 0;
  /// The folder's name of the current save; empty without one.
  std::string begun_;
};

}  // namespace troupe::model
