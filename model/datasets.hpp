// The data sets that there are, for `open_dataset` and the settings; everybody else goes through model/data.hpp.

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

enum class data_kind : std::uint8_t { adult, tutorial, synthetic, criteo, csv, replay };
constexpr std::size_t data_kinds = 6;
/// So many of them, the first ones, are listed for users; a replay is what `troupe parity` runs.
constexpr std::size_t listed_data_kinds = 5;

/// What a job's `data` starts with if it names a file.
constexpr std::string_view criteo_prefix = "criteo:";
constexpr std::string_view csv_prefix = "csv:";

/// What a job's `data` starts with if it names a reference run.
constexpr std::string_view replay_prefix = "replay:";

/// The data set that the text of a `data` setting names; nullopt if there is none of that name.
std::optional<data_kind> data_kind_of(std::string_view data);

// Sizes that the data sets' owners and the settings' checks share.
constexpr std::size_t adult_tables = 8;
constexpr std::size_t adult_dense_features = 6;
constexpr std::size_t adult_classes = 2;
constexpr std::size_t tutorial_dim = 16;
constexpr std::size_t tutorial_classes = 8;
constexpr std::size_t criteo_tables = 26;
constexpr std::size_t criteo_dense_features = 13;
constexpr std::size_t criteo_classes = 2;

/// Rows of a file's table: one for missing values and at least one for others; numbers of rows are kept in 32 bits.
constexpr std::uint64_t file_rows_min = 2;
constexpr std::uint64_t file_rows_max = std::uint64_t{1} << 32;

/// Most tables of a model.
constexpr std::size_t tables_max = 4096;

// Each makes the data set of a job that `parse_job` accepted.
result<std::shared_ptr<const dataset>> open_adult(const job& job);
result<std::shared_ptr<const dataset>> open_tutorial(const job& job);
result<std::shared_ptr<const dataset>> open_synthetic(const job& job);
result<std::shared_ptr<const dataset>> open_files(const job& job);
result<std::shared_ptr<const dataset>> open_replay(const job& job);

/// What is wrong if `rows` training rows of `source` are not enough for the job's trainers or for one batch.
std::optional<std::string> check_share(const job& job, std::uint64_t rows, const std::string& source);

/// Width of the network's output for targets in `classes` classes: one for each with cross-entropy, else a single one.
inline std::size_t outputs_for(loss_kind loss, std::size_t classes) {
  return loss == loss_kind::cross_entropy ? classes : 1;
}

/// Appends the target of one sample: its class number, as `loss` wants it.
inline void append_target(batch& to, loss_kind loss, std::size_t target) {
  if (loss == loss_kind::cross_entropy)
    to.classes.push_back(static_cast<std::int64_t>(target));
  else
    to.values.push_back(static_cast<float>(target));
}

/// One object that everybody shares who asks for the same key while somebody holds it. May be used from any thread;
/// who asks while another is making the object waits for it.
template <class Key, class T>
class shared_while_held {
 public:
  /// The object of `key`: the one held, or what `make()` returns, a result<T>. A fault is not remembered.
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
