// The types of modules that servers can make: by name, with named arguments.

#pragma once

#include <memory>
#include <string>
#include <vector>

#include "actors/remote_module.hpp"
#include "troupe/remote_object.hpp"

namespace troupe::runtime {

/// Makes the servers of this process know the registered types, and what they offer themselves. Thread: any; any number
/// of times.
void register_modules();

/// Arguments as they travel: each as text, after a letter for its type and a colon.
msg::arguments to_text(const std::vector<arg>& all);
/// Throws `error` if one is malformed.
std::vector<arg> from_text(const msg::arguments& all);

/// Makes a module of this process's own, as a server would: what it is, and whether the arguments fit. Null: the type
/// is no nn::module. Throws `error` as its constructor does.
std::shared_ptr<const nn::module> try_module(const std::string& type, const std::vector<arg>& given);

}  // namespace troupe::runtime
