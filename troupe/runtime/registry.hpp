// The types of modules that servers can make: by name, with named options.

#pragma once

#include <string>

#include "actors/remote_module.hpp"
#include "troupe/remote_object.hpp"

namespace troupe::runtime {

/// Makes the servers of this process know the registered types, and what they offer themselves. Thread: any; any number
/// of times.
void register_modules();

/// Returns options as they travel, each as text after a letter for its type and a colon; without those that need not be
/// given and have their default. Throws `error` if one is not within its limits, or is not described.
msg::arguments to_text(const std::string& type, const detail::remote_options& options);
/// Sets what `all` gives. Throws `error` if one is unknown, malformed, given twice or not within its limits, or if one
/// that is required is missing.
void from_text(const std::string& type, const msg::arguments& all, detail::remote_options& to);

}  // namespace troupe::runtime
