// Arrays of numbers with a type and a shape.

#pragma once

#include "nn/tensor.hpp"
