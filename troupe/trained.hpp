// What an optimizer trains: a replica of this trainer, or a remote module.

#pragma once

#include <memory>
#include <variant>

namespace troupe::runtime {

class replica;
class remote_table;

using trained = std::variant<std::shared_ptr<replica>, std::shared_ptr<const remote_table>>;

}  // namespace troupe::runtime
