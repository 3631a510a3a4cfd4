#include "actors/evaluation.hpp"

#include <algorithm>

namespace troupe::actors {

namespace {

constexpr std::uint64_t rows_at_once = 1024;

}  // namespace

void test_share::begin() {
  next_ = rank_ * rows_at_once;
  counts_ = {};
}

std::optional<test_share::chunk> test_share::next() {
  if (next_ >= rows_) return std::nullopt;
  const chunk one{next_, std::min(rows_at_once, rows_ - next_)};
  next_ += rows_at_once * ranks_;
  return one;
}

msg::evaluation test_share::report() {
  const std::uint64_t scored = counts_.scores.size();
  msg::evaluation all;
  all.rows = counts_.rows;
  all.correct = counts_.correct;
  all.scores = msg::tensor::own(scored, 1, std::exchange(counts_.scores, {}));
  all.labels = msg::tensor::own(scored, 1, std::exchange(counts_.labels, {}));
  all.log_loss_sum = counts_.log_loss_sum;
  all.probability_sum = counts_.probability_sum;
  all.tested = counts_.tested;
  all.loss_sum = counts_.loss_sum;
  return all;
}

}  // namespace troupe::actors
