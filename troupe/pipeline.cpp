#include "troupe/pipeline.hpp"

#include <fmt/format.h>

#include <vector>

#include "model/micro_batch.hpp"
#include "troupe/error.hpp"
#include "troupe/runtime/pipeline_stage.hpp"

namespace troupe {

namespace {

/// Throws unless there is a target for each sample.
void check_targets(const tensor& input, const shape& targets) {
  const shape& given = input.shape();
  if (given.dimensions() == 0 || given[0] == 0 || targets.dimensions() == 0 || targets[0] != given[0])
    throw error(error_kind::input,
                fmt::format("pipeline: an input {} and targets {}; the first dimension of both counts the samples, at "
                            "least 1; a replica without a batch takes its optimizer step alone",
                            to_string(given), to_string(targets)));
}

}  // namespace

std::uint32_t pipeline::stage() const { return stage_->place().stage; }
std::uint32_t pipeline::stages() const { return stage_->place().stages; }
std::uint32_t pipeline::replica() const { return stage_->part().replica_number(); }
std::uint32_t pipeline::replicas() const { return stage_->part().across().size(); }
std::size_t pipeline::max_in_flight() const { return stage_->max_in_flight(); }

task<double> pipeline::step(context& in, const tensor& input, std::span<const std::int64_t> classes,
                            loss_of_classes loss, source_location at) const {
  check_targets(input, shape(classes.size()));
  auto of = [all = std::vector<std::int64_t>(classes.begin(), classes.end()), loss = std::move(loss)](
                context& where, const tensor& outputs, const model::micro_batch& samples) {
    return loss(where, outputs, std::span(all).subspan(samples.first, samples.size));
  };
  return stage_->step(in, input, std::move(of), at);
}

task<double> pipeline::step(context& in, const tensor& input, const tensor& targets, loss_of_targets loss,
                            source_location at) const {
  check_targets(input, targets.shape());
  auto of = [targets, loss = std::move(loss)](context& where, const tensor& outputs,
                                              const model::micro_batch& samples) {
    return loss(where, outputs, runtime::samples_of(targets, samples));
  };
  return stage_->step(in, input, std::move(of), at);
}

task<tensor> pipeline::infer(context& in, const tensor& input) const {
  stage_->check_idle("infer");
  return stage_->infer(in, input);
}

task<> pipeline::drain() const {
  stage_->check_idle("drain");
  return stage_->drain();
}

named_tensors pipeline::state_dict() const { return stage_->state_dict(); }
void pipeline::load_state_dict(const named_tensors& state) const { stage_->load(state); }
runtime::trained pipeline::trained() const { return stage_->replica(); }

}  // namespace troupe
