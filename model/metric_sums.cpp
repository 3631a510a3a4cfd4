#include "model/metric_sums.hpp"

#include <fmt/format.h>

#include <cmath>
#include <exception>
#include <optional>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "base/exception_text.hpp"

namespace troupe::model {

namespace {

/// Calls a function of a metric. If it throws, throws `error` with the metric's name.
template <class F>
auto in_metric(const nn::own_metric& metric, const F& call) {
  std::string why = "an exception of unknown type";
  try {
    return call();
  } catch (const std::exception& e) {
    why = troupe::text_of(e);
  } catch (...) {
  }
  throw error(error_kind::run, fmt::format("the metric {}: {}", metric.name, why));
}

}  // namespace

metric_sums::metric_sums(nn::own_metrics metrics) : metrics_(std::move(metrics)) {
  std::size_t count = 0;
  for (const auto& one : metrics_) count += one->sums.sums;
  sums_.resize(2 * count);
}

void metric_sums::add(const batch& samples, std::size_t width, const float* outputs) {
  if (metrics_.empty()) return;
  std::vector<double> shares;
  for (std::size_t row = 0; row < samples.size; ++row) {
    nn::metric_sample one{.outputs = {outputs + row * width, width}};
    if (!samples.classes.empty())
      one.target_class = samples.classes[row];
    else
      one.targets = {samples.values.data() + row * width, width};
    auto sum = sums_.begin();
    for (const auto& metric : metrics_) {
      shares.assign(metric->sums.sums, 0);
      in_metric(*metric, [&] { metric->sums.add(one, shares); });
      for (const double share : shares) {
        if (share < 0)
          std::next(sum)->add(-share);
        else
          sum->add(share);
        sum += 2;
      }
    }
  }
}

std::vector<std::int64_t> metric_sums::limbs() {
  std::vector<std::int64_t> all;
  all.reserve(sums_.size() * exact_sum::size);
  for (exact_sum& one : sums_) {
    const auto limbs = one.limbs();
    all.insert(all.end(), limbs.begin(), limbs.end());
  }
  return all;
}

bool metric_sums::merge(std::span<const std::int64_t> limbs) {
  if (limbs.size() != sums_.size() * exact_sum::size) return false;
  std::vector<exact_sum> others;
  others.reserve(sums_.size());
  for (std::size_t i = 0; i < sums_.size(); ++i) {
    const auto other = exact_sum::from(limbs.subspan(i * exact_sum::size, exact_sum::size));
    if (!other) return false;
    others.push_back(*other);
  }
  for (std::size_t i = 0; i < sums_.size(); ++i) sums_[i].merge(others[i]);
  return true;
}

own_figures metric_sums::figures(std::uint64_t rows) const {
  own_figures made;
  auto sum = sums_.begin();
  std::vector<double> values;
  for (const auto& metric : metrics_) {
    values.clear();
    for (std::size_t i = 0; i < metric->sums.sums; ++i, sum += 2)
      values.push_back(sum->value() - std::next(sum)->value());
    const std::optional<double> value =
        rows > 0 ? std::optional(in_metric(*metric, [&] { return metric->sums.result(values, rows); })) : std::nullopt;
    made.add(metric->name, value && std::isfinite(*value) ? value : std::nullopt);
  }
  return made;
}

}  // namespace troupe::model
