// The interface of modules.

#pragma once

#include "nn/module.hpp"
