// The exception that the library throws.

#pragma once

#include "base/error.hpp"
