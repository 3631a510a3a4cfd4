// The program `troupe` with the user's own layers, losses, metrics, optimizers and data sets: for the `main` of a
// program that links troupe::program.
//
//   int main(int argc, char** argv) {
//     troupe::nn::add_layer<swish>("swish");
//     troupe::nn::add_loss("huber", troupe::nn::loss_form::values, huber);
//     troupe::nn::add_metric("mae", troupe::nn::loss_form::values, absolute_error);
//     troupe::nn::add_optimizer<lion>("lion");
//     troupe::nn::add_data("ratings", open_ratings);
//     return troupe::program(argc, argv);
//   }
//
// Its jobs may then use kind = "swish", loss = "huber", metrics = ["mae"], dense-optimizer = "lion:beta1=0.95" and data
// = "ratings"; else it is the whole of `troupe`: train, resume, processes, hosts, trace, page. Every process of a run
// must be this program; one that lacks a name reports it and refuses the job.

#pragma once

#include <string>
#include <vector>

#include "nn/own_data.hpp"
#include "nn/own_layer.hpp"
#include "nn/own_loss.hpp"
#include "nn/own_metric.hpp"
#include "nn/own_optimizer.hpp"

namespace troupe {

/// Returns the exit code.
int program(int argc, char** argv);
/// The same; `arguments`: without the program's name.
int program(const std::vector<std::string>& arguments);

}  // namespace troupe
