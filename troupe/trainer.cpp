#include "troupe/trainer.hpp"

#include "troupe/runtime/trainer_runtime.hpp"

namespace troupe {

std::uint32_t trainer::rank() const { return runtime_->rank(); }
std::uint32_t trainer::trainers() const { return runtime_->trainers(); }
std::uint32_t trainer::servers() const { return static_cast<std::uint32_t>(runtime_->calls().servers().size()); }
std::uint64_t trainer::seed() const { return runtime_->seed(); }
bool trainer::resumed() const { return runtime_->kept().is_resumed(); }
std::uint64_t trainer::skipped_steps() const { return runtime_->skipped_steps(); }

group trainer::group() const { return {runtime_->communicator().all(), runtime_->deadline()}; }

context trainer::new_context() const { return context(std::make_unique<runtime::tape>(*runtime_, true)); }
context trainer::no_grad() const { return context(std::make_unique<runtime::tape>(*runtime_, false)); }

data_parallel trainer::make_replica(std::shared_ptr<const nn::module> module,
                                    const data_parallel_options& options) const {
  return troupe::data_parallel(runtime_->make_replica(std::move(module), options));
}

troupe::pipeline trainer::pipeline(const std::vector<nn::sequential>& stages, const pipeline_options& options) const {
  return troupe::pipeline(runtime_->make_stage(stages, options));
}

void trainer::keep(const std::string& name, std::function<named_tensors()> state,
                   const std::function<void(const named_tensors&)>& load) const {
  runtime_->kept().keep(name, std::move(state), load);
}

tensor data_parallel::operator()(context& in, const tensor& input, source_location at) const {
  in.tape().owner().communicator().set_place(at);
  return replica_->apply(in.tape(), input).output;
}
sequence_part data_parallel::operator()(context& in, const tensor& input, const tensor& state,
                                        source_location at) const {
  in.tape().owner().communicator().set_place(at);
  return replica_->apply(in.tape(), input, {.state = &state});
}

named_tensors data_parallel::state_dict() const { return replica_->state_dict(); }
void data_parallel::load_state_dict(const named_tensors& state) const { replica_->load_state_dict(state); }

std::vector<float> data_parallel::parameters() const { return replica_->parameters(); }

}  // namespace troupe
