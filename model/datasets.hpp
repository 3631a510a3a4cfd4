// The known data sets, for `open_dataset` and the settings; other code uses model/data.hpp.

#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.hpp"
#include "model/data.hpp"
#include "model/job.hpp"

namespace troupe::model {

/// `own`: data sets added by the program (nn/own_data.hpp), under their own names.
enum class data_kind : std::uint8_t { adult, tutorial, synthetic, criteo, csv, mnist, idx, replay, own };
constexpr std::size_t data_kinds = 9;
/// The number of kinds listed for users, which are the first ones; replays are for `troupe parity`.
constexpr std::size_t listed_data_kinds = 7;

/// Prefixes of a job's `data` that names a file.
constexpr std::string_view criteo_prefix = "criteo:";
constexpr std::string_view csv_prefix = "csv:";
constexpr std::string_view idx_prefix = "idx:";

/// The prefix of a job's `data` that names the folder of MNIST's files; without one they are in the user's cache.
constexpr std::string_view mnist_prefix = "mnist:";

/// The prefix of a job's `data` that names a reference run.
constexpr std::string_view replay_prefix = "replay:";

/// Returns the kind of the data set that the setting `data` names; null for an unknown name.
std::optional<data_kind> data_kind_of(std::string_view data);
/// Returns the data set's name, such as csv for csv:FILE.
inline std::string_view data_name(std::string_view data) { return data.substr(0, data.find(':')); }

// Sizes that data sets and the checks of settings share.
constexpr std::size_t adult_tables = 8;
constexpr std::size_t adult_dense_features = 6;
constexpr std::size_t adult_classes = 2;
constexpr std::size_t tutorial_dim = 16;
constexpr std::size_t tutorial_classes = 8;
constexpr std::size_t tutorial_bag_max = 10;
constexpr double tutorial_mean_bag = (1 + tutorial_bag_max) / 2.0;
constexpr double tutorial_mean_batch = 7;  ///< 20 to 50 indices, the last bag perhaps cut short
constexpr std::size_t criteo_tables = 26;
constexpr std::size_t criteo_dense_features = 13;
constexpr std::size_t criteo_classes = 2;
constexpr std::size_t mnist_side = 28;  ///< height and width of an image, which has one channel
constexpr std::size_t mnist_classes = 10;

/// Limits of the rows of a file's table: one for missing values and at least one more; row numbers have 32 bits.
constexpr std::uint64_t file_rows_min = 2;
constexpr std::uint64_t file_rows_max = std::uint64_t{1} << 32;

/// Most tables of a model.
constexpr std::size_t tables_max = 4096;

// Each opens the data set of a job. Requires: `parse_job` accepted the job.
result<std::shared_ptr<const dataset>> open_adult(const job& job);
result<std::shared_ptr<const dataset>> open_tutorial(const job& job);
result<std::shared_ptr<const dataset>> open_synthetic(const job& job);
result<std::shared_ptr<const dataset>> open_files(const job& job, std::span<const std::uint64_t> row_index);
result<std::shared_ptr<const dataset>> open_images(const job& job);
result<std::shared_ptr<const dataset>> open_replay(const job& job);
result<std::shared_ptr<const dataset>> open_own(const job& job);

/// Refuses a job if `rows` training rows of `source` are too few for its trainers or for one batch.
std::optional<std::string> check_share(const job& job, std::uint64_t rows, const std::string& source);

/// Returns the width of the network's output for `classes` classes: `classes` with cross-entropy, else 1.
inline std::size_t outputs_for(loss_kind loss, std::size_t classes) {
  return loss == loss_kind::cross_entropy ? classes : 1;
}

/// Appends a sample's class number in the form that `loss` needs.
inline void append_target(batch& to, loss_kind loss, std::size_t target) {
  if (loss == loss_kind::cross_entropy)
    to.classes.push_back(static_cast<std::int64_t>(target));
  else
    to.values.push_back(static_cast<float>(target));
}

/// A cache of objects by key; each stays while anything holds it. Thread: any; a call blocks while another thread makes
/// an object.
template <class Key, class T>
class shared_while_held {
 public:
  /// Returns the held object of `key`, or else makes it with `make()`, which returns a result<T>. Faults are not
  /// cached.
  template <class Make>
  result<std::shared_ptr<const T>> get(const Key& key, Make make) {
    const std::lock_guard lock(mutex_);
    for (const auto& [held_key, held] : held_) {
      if (!(held_key == key)) continue;
      if (auto object = held.lock()) return object;
    }
    TROUPE_TRY(made, make());
    auto object = std::make_shared<const T>(std::move(made));
    std::erase_if(held_, [](const auto& entry) { return entry.second.expired(); });
    held_.emplace_back(key, object);
    return object;
  }

 private:
  std::mutex mutex_;
  std::vector<std::pair<Key, std::weak_ptr<const T>>> held_;
};

}  // namespace troupe::model
