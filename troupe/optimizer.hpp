// Optimizers for local and remote parameters, by PyTorch's definitions.

#pragma once

#include <memory>
#include <ranges>
#include <string>
#include <variant>
#include <vector>

#include "nn/own_optimizer.hpp"
#include "troupe/context.hpp"
#include "troupe/data_parallel.hpp"
#include "troupe/future.hpp"
#include "troupe/remote_module.hpp"
#include "troupe/source_location.hpp"

namespace troupe {

struct optimizer_choice;

namespace runtime {
struct optimizer_text;
}

/// Stochastic gradient descent, with PyTorch's momentum and weight decay.
struct sgd {
  double lr = 0.01;
  double momentum = 0;
  double weight_decay = 0;
  bool nesterov = false;
  /// The schedule of the factor on `lr` for each optimizer step, as in `troupe train --lr-schedule`:
  /// "warmup:100+cosine:900".
  std::string lr_schedule = "constant";

  operator optimizer_choice() const;
};

/// Adagrad, with PyTorch's constants.
struct adagrad {
  double lr = 0.01;
  double weight_decay = 0;
  double initial_accumulator_value = 0;
  double eps = 1e-10;
  std::string lr_schedule = "constant";

  operator optimizer_choice() const;
};

/// Adam, with PyTorch's constants.
struct adam {
  double lr = 0.001;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  std::string lr_schedule = "constant";

  operator optimizer_choice() const;
};

/// A choice of optimizer: the options of one of these; or, without options, a setting as in `troupe train
/// --sparse-optimizer`, such as "lazy-adam:eps=1e-6", or the name of one that the program has added
/// (nn::add_optimizer).
struct optimizer_choice {
  std::string name;
  double lr = 0;
  std::variant<std::monostate, sgd, adagrad, adam> options = {};
  std::string lr_schedule = "constant";
};

inline sgd::operator optimizer_choice() const { return {"sgd", lr, *this, lr_schedule}; }
inline adagrad::operator optimizer_choice() const { return {"adagrad", lr, *this, lr_schedule}; }
inline adam::operator optimizer_choice() const { return {"adam", lr, *this, lr_schedule}; }

/// Takes steps with the gradients of a context: replicas with the mean over all trainers, remote modules on their
/// servers. All trainers make the same optimizers, and take their steps in the same order. Throws `error` if the choice
/// is invalid.
class distributed_optimizer {
 public:
  template <class... Members>
  explicit distributed_optimizer(const optimizer_choice& choice, const Members&... members) {
    add(choice, members...);
  }

  /// Adds members with another choice; each is a replica, a remote module, or a range of them.
  template <class... Members>
  distributed_optimizer& add(const optimizer_choice& choice, const Members&... members) {
    std::vector<runtime::trained> all;
    (append(all, members), ...);
    add_members(choice, all);
    return *this;
  }

  /// Takes a step. When it is done, this trainer's replicas have their new parameters, and lookups return the new rows.
  /// `at`: the caller's source location, for errors.
  future<> step(context& with, source_location at = source_location::current()) const;

 private:
  template <class Members>
  static void append(std::vector<runtime::trained>& all, const Members& members) {
    if constexpr (requires { members.trained(); }) {
      all.push_back(members.trained());
    } else {
      static_assert(std::ranges::range<Members>,
                    "an optimizer trains replicas, modules of networks on servers, tables, and ranges of them");
      for (const auto& one : members) append(all, one);
    }
  }
  void add_members(const optimizer_choice& choice, const std::vector<runtime::trained>& members);

  std::vector<runtime::trained> members_;
  std::shared_ptr<runtime::optimizer_text> text_;  ///< shown to the other trainers
};

}  // namespace troupe
