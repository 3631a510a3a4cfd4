// For files that still include it.

#pragma once

#include "protocol/messages.hpp"
