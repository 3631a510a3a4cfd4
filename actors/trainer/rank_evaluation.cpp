#include "actors/trainer/rank_evaluation.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace troupe::actors {

std::optional<test_share::chunk> test_share::next() {
  if (next_ >= rows_) return std::nullopt;
  const chunk one{next_, std::min(test_rows_at_once, rows_ - next_)};
  next_ += test_rows_at_once * ranks_;
  return one;
}

rank_evaluation::rank_evaluation(std::uint32_t rank, const model::job& what, const model::dataset& data)
    : job_(&what), data_(&data), share_(rank, what.trainers, data.test_rows()) {}

void rank_evaluation::begin() {
  share_.begin();
  counts_ = {};
  own_ = model::metric_sums(job_->metrics);
}

caf::expected<bool> rank_evaluation::take_next(const preparation& prepare) {
  const auto chunk = share_.next();
  if (!chunk) return false;
  auto made = prepare(data_->test_batch(chunk->first, chunk->count));
  if (!made) return std::move(made.error());
  rows_ = std::move(*made);
  return true;
}

void rank_evaluation::score(const float* outputs) {
  model::predict(data_->spec(), job_->loss, samples(), outputs, counts_);
  own_.add(samples(), data_->spec().outputs, outputs);
}

msg::evaluation rank_evaluation::report() {
  const std::uint64_t scored = counts_.scores.size();
  msg::evaluation made{.head = {},
                       .rows = counts_.rows,
                       .correct = counts_.correct,
                       .scores = msg::tensor::own(scored, 1, std::exchange(counts_.scores, {})),
                       .labels = msg::tensor::own(scored, 1, std::exchange(counts_.labels, {})),
                       .log_loss_sum = counts_.log_loss_sum,
                       .probability_sum = counts_.probability_sum,
                       .tested = counts_.tested,
                       .loss_sum = counts_.loss_sum};
  if (!job_->metrics.empty()) {
    std::vector<std::int64_t> limbs = own_.limbs();
    const std::uint64_t sums = limbs.size() / model::exact_sum::size;
    made.own.push_back(msg::tensor::own(sums, model::exact_sum::size, std::move(limbs)));
  }
  return made;
}

}  // namespace troupe::actors
