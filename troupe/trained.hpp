// The members of an optimizer: a replica of this trainer, or a remote module.

#pragma once

#include <memory>
#include <variant>

namespace troupe::runtime {

class replica;
class reference;
class remote_table;

/// A replica, a table on servers, or another module on a server.
using trained =
    std::variant<std::shared_ptr<replica>, std::shared_ptr<const remote_table>, std::shared_ptr<const reference>>;

}  // namespace troupe::runtime
