// The folder that a run saves its checkpoints in. A save writes its files into a folder of its own and is committed by
// the rename of its manifest, so that a failure at any moment leaves the checkpoints before it as they were.

#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "model/checkpoint/manifest.hpp"
#include "model/checkpoint/resume.hpp"

namespace troupe::model {

/// Called by one thread at a time; between `begin` and `commit` any number of threads write files into the folder that
/// `begin` gave. One save at a time.
class checkpoint_store {
 public:
  /// Makes `directory` with its parents if it is not there, and locks it for this run until the store is gone.
  /// `resumed` is where the run goes on from, in this folder or another; null for a new run. Faults, kind input: not a
  /// folder, cannot be written, another run saves there, or it holds checkpoints that this run does not go on from.
  static result<checkpoint_store> open(const std::string& directory, const resume_point* resumed);

  checkpoint_store(checkpoint_store&& other) noexcept;
  checkpoint_store& operator=(checkpoint_store&& other) noexcept;
  /// Abandons what was begun.
  ~checkpoint_store();

  const std::string& directory() const { return directory_; }

  /// Makes the folder for the files of the checkpoint after step `step`; returns its path.
  result<std::string> begin(std::uint64_t step);

  /// Makes the save that was begun a checkpoint, and removes all others but the newest one before it. The caller fills
  /// in everything but `folder`; the files, in any order, must be there. On a fault, kind run, nothing was committed
  /// and what was begun is removed, with one exception: if only the last wait for the disk failed, the checkpoint is
  /// there, but might not outlive a power cut.
  result<void> commit(checkpoint_manifest manifest);

  /// Removes what was begun, if anything was.
  void abandon();

 private:
  explicit checkpoint_store(std::string directory) : directory_(std::move(directory)) {}

  std::string path(const std::string& name) const { return directory_ + "/" + name; }
  result<void> lock();
  result<void> check_vacant(const resume_point* resumed);
  result<void> write_manifest(const checkpoint_manifest& manifest);
  void remove_old(const checkpoint_manifest& newest) const;

  std::string directory_;
  int lock_ = -1;
  /// Checkpoints of the folder that are not to be kept.
  std::set<std::uint64_t> torn_;
  std::uint64_t step_ = 0;
  /// Name of the folder of the save under way; empty if there is none.
  std::string begun_;
};

}  // namespace troupe::model
