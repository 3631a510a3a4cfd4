// Modules made of modules.

#pragma once

#include "nn/residual.hpp"
#include "nn/sequential.hpp"
