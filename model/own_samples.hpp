// A batch that a program's data set fills, sample by sample.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "model/batch.hpp"
#include "nn/ids.hpp"
#include "nn/own_data.hpp"

namespace troupe::model {

/// Belongs to a call of `own_data::read`, and refuses at once any value that does not fit.
class own_samples final : public nn::data_samples {
 public:
  /// `loss`: decides whether classes become values. `ids`: the allowed dense features, if these are ids. `rows`: the
  /// rows to be read. Requires: `form` and `rows` outlive this object.
  own_samples(const nn::data_form& form, loss_kind loss, std::optional<nn::id_range> ids,
              std::span<const std::uint64_t> rows);

  void next() override;
  void bag(std::size_t table, std::span<const std::int64_t> indices, std::span<const float> weights) override;
  void dense(std::span<const float> features) override;
  void target_class(std::int64_t number) override;
  void targets(std::span<const float> values) override;

  /// Throws `error` unless there is a whole sample for each row.
  void finish() const;
  /// Returns the row of the last begun sample; before that, the first row. Requires: there are rows.
  std::uint64_t row() const { return rows_[made_.size > 0 ? made_.size - 1 : 0]; }
  /// Requires: `finish` has accepted the samples.
  batch take() && { return std::move(made_); }

 private:
  void check_begun() const;
  void check_whole() const;
  void check_target(const char* given, bool fits) const;

  const nn::data_form& form_;
  loss_kind loss_;
  std::optional<nn::id_range> ids_;
  std::span<const std::uint64_t> rows_;
  batch made_;
  bool has_target_ = false;  ///< the last begun sample has its target
};

}  // namespace troupe::model
