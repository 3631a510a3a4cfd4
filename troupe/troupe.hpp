// All of the library.

#pragma once

#include "troupe/cluster.hpp"
#include "troupe/context.hpp"
#include "troupe/data.hpp"
#include "troupe/data_parallel.hpp"
#include "troupe/error.hpp"
#include "troupe/functions.hpp"
#include "troupe/future.hpp"
#include "troupe/group.hpp"
#include "troupe/layers.hpp"
#include "troupe/loss.hpp"
#include "troupe/module.hpp"
#include "troupe/optimizer.hpp"
#include "troupe/option.hpp"
#include "troupe/remote_module.hpp"
#include "troupe/sampler.hpp"
#include "troupe/state.hpp"
#include "troupe/task.hpp"
#include "troupe/tensor.hpp"
#include "troupe/trainer.hpp"
#include "troupe/tutorial.hpp"
