// The program `troupe` with layers of one's own: what `main` calls, in a program that links troupe::program.
//
//   int main(int argc, char** argv) {
//     troupe::nn::add_layer<swish>("swish");
//     return troupe::program(argc, argv);
//   }
//
// Its job files may then say kind = "swish"; else it is the whole of `troupe`: train, resume, processes, hosts, trace,
// page. Every process of a run is such a program; one that lacks a kind names it and refuses the job.

#pragma once

#include "nn/own_layer.hpp"

namespace troupe {

/// Returns the exit code.
int program(int argc, char** argv);

}  // namespace troupe
