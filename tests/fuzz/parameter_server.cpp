// The parameter server, which receives hot messages with arbitrary content: it must answer, park, refuse or end, and
// never read outside a message or its table.
//
// The first bytes of an input choose the run's settings and the table; each further message is a kind, a head and its
// fields, of numbers that mostly match (see input.hpp). Blobs are exactly as long as their contents, so that a
// sanitizer detects reads past them. `instantiate` with the peer's arguments and messages that name files are omitted:
// only the master sends them.

#include "actors/server/parameter_server.hpp"

#include <array>
#include <span>

#include "tests/fuzz/actors.hpp"
#include "tests/fuzz/input.hpp"
#include "tests/fuzz/target.hpp"

namespace troupe::fuzz::parameter_server_target {

constexpr std::uint64_t run_number = 1;
constexpr std::uint32_t table_rows = 5;
constexpr std::size_t messages_max = 40;

enum kind : std::uint8_t { lookup_kind, gradient_kind, norm_kind, step_kind, dict_kind, digests_kind, kinds };

class peer {
 public:
  explicit peer(input from) : from_(from), server_(actors_.spawn(actors::parameter_server, run_number, 0U)) {}

  void talk() {
    const bool made = from_.below(16) != 15;
    if (made) caf::anon_send(server_, order());
    run_all();
    for (std::size_t i = 0; i < messages_max && !from_.empty(); ++i) {
      send_next();
      run_all();
    }
  }

 private:
  msg::instantiate order() {
    constexpr std::array modes = {"sum", "mean", "max"};
    constexpr std::array dtypes = {"f32", "f16", "bf16"};
    constexpr std::array optimizers = {
        "sgd", "sgd:momentum=0.9,lazy=true", "adagrad", "rowwise_adagrad", "adam", "adam:lazy=true"};
    constexpr std::array schedules = {"constant", "warmup:3", "step:1,0.5", "cosine:4"};
    constexpr std::array stalenesses = {0U, 1U, 2U, model::any_staleness};
    dim_ = 1 + from_.below(5);
    const msg::module_spec spec{"EmbeddingBag",
                                {{"num_embeddings", std::to_string(table_rows)},
                                 {"embedding_dim", std::to_string(dim_)},
                                 {"mode", modes[from_.below(modes.size())]},
                                 {"seed", "1"},
                                 {"table", "0"},
                                 {"dtype", dtypes[from_.below(dtypes.size())]},
                                 {"optimizer", optimizers[from_.below(optimizers.size())]},
                                 {"lr", "1"},
                                 {"lr_schedule", schedules[from_.below(schedules.size())]},
                                 {"reduce", from_.below(2) == 0 ? "sum" : "mean"}}};
    return {
        head(0),       spec, 0, 1, 1 + from_.below(3), 1 + from_.below(2), stalenesses[from_.below(stalenesses.size())],
        from_.below(3)};
  }

  msg::header head(std::uint64_t step) { return {run_number, step, 9, 0, ++sequence_, 0}; }

  /// One message in sixteen is for any run, with any sequence.
  msg::header next_head() {
    const std::uint8_t odd = from_.byte();
    msg::header one = head(from_.count());
    if (odd % 16 == 15) {
      one.run = from_.count();
      one.sequence = from_.count();
    }
    return one;
  }

  void send_next() {
    switch (from_.below(kinds)) {
      case lookup_kind: {
        msg::lookup wanted{next_head(), {}, 0, dtype::f32};
        wanted.staleness = static_cast<std::uint32_t>(from_.count());
        wanted.type = next_dtype();
        for (std::uint32_t i = from_.below(3); i > 0; --i) wanted.tables.push_back(next_bags<msg::bag_lookup>());
        return actors_.ask<msg::rows>(server_, std::move(wanted));
      }
      case gradient_kind: {
        msg::gradient grads{next_head(), next_rank(), from_.below(8) != 7, from_.below(2) == 0, {}};
        for (std::uint32_t i = from_.below(3); i > 0; --i) {
          auto one = next_bags<msg::bag_gradient>();
          one.grad = next_tensor(one.offsets.empty() ? one.indices.size() / 8 : one.offsets.size() / 8);
          grads.tables.push_back(std::move(one));
        }
        return caf::anon_send(server_, std::move(grads));
      }
      case norm_kind: {
        const msg::header about = next_head();
        return actors_.ask<msg::squared_norm>(server_, msg::gradient_norm{about, next_rank()});
      }
      case step_kind: {
        const msg::header about = next_head();
        return actors_.ask<msg::committed>(server_,
                                           msg::optimizer_step{about, next_rank(), from_.below(4) != 3, next_float()});
      }
      case dict_kind: {
        const msg::header about = next_head();
        return actors_.ask<msg::module_state>(server_, msg::state_dict{about, next_module()});
      }
      default: {
        const msg::header about = next_head();
        const std::uint64_t first = from_.count();
        return actors_.ask<msg::tensor>(server_, msg::row_digests{about, next_module(), first, from_.count()});
      }
    }
  }

  std::uint32_t next_rank() { return static_cast<std::uint32_t>(from_.count()); }
  std::uint64_t next_module() { return from_.byte() < 240 ? 1 : from_.count(); }
  dtype next_dtype() {
    constexpr std::array types = {dtype::f32, dtype::f16, dtype::bf16, dtype::f64, dtype::i64, dtype::u64};
    return types[from_.below(types.size())];
  }

  float next_float() {
    const std::uint8_t one = from_.byte();
    return one < 240 ? static_cast<float>(one) / 8 - 10 : std::bit_cast<float>(from_.number<std::uint32_t>());
  }

  /// Up to 7 numbers, sometimes with bytes that do not form a whole one.
  msg::blob next_numbers(std::uint32_t limit) {
    const std::uint8_t shape = from_.byte();
    std::vector<std::int64_t> numbers(shape % 8);
    for (std::int64_t& one : numbers) {
      const std::uint8_t byte = from_.byte();
      one = byte < 240 ? byte % limit : static_cast<std::int64_t>(from_.count());
    }
    const std::size_t odd = shape >= 240 ? 1 + shape % 7 : 0;
    std::vector<std::byte> all(numbers.size() * sizeof(std::int64_t) + odd);
    if (!numbers.empty()) std::memcpy(all.data(), numbers.data(), numbers.size() * sizeof(std::int64_t));
    return msg::blob::own(std::move(all));
  }

  /// Offsets, mostly ascending from 0.
  msg::blob next_offsets(std::size_t indices) {
    const std::uint8_t shape = from_.byte();
    if (shape % 4 == 0) return {};
    if (shape >= 240) return next_numbers(static_cast<std::uint32_t>(indices) + 1);
    std::vector<std::int64_t> offsets(1 + shape % 3);
    for (std::size_t i = 1; i < offsets.size(); ++i)
      offsets[i] = std::min(static_cast<std::int64_t>(indices), offsets[i - 1] + from_.byte() % 3);
    return msg::blob::own(std::move(offsets));
  }

  template <class Bags>
  Bags next_bags() {
    Bags bags;
    bags.module = next_module();
    bags.indices = next_numbers(table_rows);
    const std::size_t count = bags.indices.size() / sizeof(std::int64_t);
    bags.offsets = next_offsets(count);
    const std::uint8_t weighted = from_.byte();
    if (weighted % 4 == 3) {
      std::vector<float> weights(weighted < 240 ? count : weighted % 8);
      for (float& one : weights) one = next_float();
      bags.weights = msg::blob::own(std::move(weights));
    }
    return bags;
  }

  /// Consistent, like a decoded tensor; its shape mostly matches.
  msg::tensor next_tensor(std::size_t rows) {
    const std::uint8_t odd = from_.byte();
    const dtype type = odd < 128 ? dtype::f32 : next_dtype();
    const std::uint64_t cols = odd % 32 == 31 ? from_.below(8) : dim_;
    const std::uint64_t count = odd % 32 == 30 ? from_.below(8) : rows;
    std::vector<std::byte> numbers(count * cols * size_of(type));
    if (type == dtype::f32) {
      for (std::size_t at = 0; at < numbers.size(); at += sizeof(float)) {
        const float one = next_float();
        std::memcpy(numbers.data() + at, &one, sizeof one);
      }
    } else {
      std::ranges::copy(from_.take(numbers.size()), numbers.begin());
    }
    return {type, count, cols, msg::blob::own(std::move(numbers))};
  }

  input from_;
  cast actors_;
  msg::parameter_server_actor server_;
  std::size_t dim_ = 1;
  std::uint64_t sequence_ = 0;
};

bytes of(std::initializer_list<int> numbers) {
  bytes all;
  for (const int one : numbers) all.push_back(static_cast<std::byte>(one));
  return all;
}

std::vector<std::pair<std::string, bytes>> seeds() {
  // made, dim, mode, dtype, optimizer, schedule, reduce, trainers, accumulate, staleness, steps done
  const bytes sync = of({0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0});
  const bytes two_trainers = of({0, 3, 1, 1, 4, 2, 1, 1, 1, 1, 0});
  const bytes async = of({0, 1, 2, 2, 3, 0, 0, 1, 0, 3, 0});
  // kind, odd, step, staleness, type, tables, module, 3 indices, offsets, weights
  const bytes look = of({lookup_kind, 0, 1, 0, 0, 1, 0, 3, 1, 0, 4, 1, 0});
  const bytes weighted = of({lookup_kind, 0, 2, 1, 1, 1, 0, 3, 1, 0, 4, 2, 1, 1, 3, 90, 91, 92});
  const bytes of_rows = of({lookup_kind, 0, 1, 0, 2, 1, 0, 2, 1, 0, 0, 0});
  // kind, odd, step, rank, has a batch, ends the step, tables, module, 2 indices, offsets, weights, odd, 2 numbers
  const bytes grad = of({gradient_kind, 0, 1, 0, 0, 0, 1, 0, 2, 1, 3, 1, 0, 0, 84, 90});
  const bytes open = of({gradient_kind, 0, 1, 0, 0, 1, 1, 0, 2, 1, 3, 1, 0, 0, 84, 90});
  const bytes narrow = of({gradient_kind, 0, 1, 0, 0, 1, 1, 0, 1, 1, 0, 0, 128, 1, 0, 60, 0, 60});
  const bytes norm = of({norm_kind, 0, 1, 0});
  const bytes step = of({step_kind, 0, 1, 0, 0, 88});
  const bytes dict = of({dict_kind, 0, 1, 0});
  const bytes digests = of({digests_kind, 0, 0, 0, 0, 5});
  const auto join = [](std::initializer_list<bytes> parts) {
    bytes all;
    for (const bytes& part : parts) all.insert(all.end(), part.begin(), part.end());
    return all;
  };
  return {{"one_trainer", join({sync, look, grad, weighted, dict, digests})},
          {"norm_and_step", join({sync, of_rows, open, narrow, norm, step, weighted})},
          {"parked", join({sync, weighted, dict, grad})},
          {"two_trainers", join({two_trainers, look, of_rows, norm, step, digests})},
          {"async", join({async, of_rows, grad, grad, weighted, step, dict})},
          {"before_instantiate", join({of({15}), look, grad, norm, step, dict})}};
}

void run(std::span<const std::byte> given) {
  the_system();
  peer(input(given)).talk();
}

}  // namespace troupe::fuzz::parameter_server_target

TROUPE_FUZZ_TARGET(parameter_server)
