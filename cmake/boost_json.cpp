// Boost.JSON's definitions, for all of the program: the library is used header-only.

#include <boost/json/src.hpp>
