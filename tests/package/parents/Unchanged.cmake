# What a subproject must leave as it was in its parent: remember() before add_subdirectory, check_unchanged() after it.
# Left out are what CMake itself writes: matches of regular expressions, and the project that project() began last.

set(watched_properties COMPILE_DEFINITIONS COMPILE_OPTIONS INCLUDE_DIRECTORIES LINK_DIRECTORIES LINK_LIBRARIES LINK_OPTIONS
                       TESTS)

macro(remember)
  get_cmake_property(_names VARIABLES)
  foreach(_name IN LISTS _names)
    set(_was_${_name} "${${_name}}")
  endforeach()
  foreach(_property IN LISTS watched_properties)
    get_directory_property(_property_${_property} ${_property})
  endforeach()
endmacro()

macro(check_unchanged)
  foreach(_name IN LISTS _names)
    if(NOT "${${_name}}" STREQUAL "${_was_${_name}}" AND NOT _name MATCHES "^(_|CMAKE_MATCH_|FIND_PACKAGE_MESSAGE)")
      message(SEND_ERROR "add_subdirectory turned ${_name} from '${_was_${_name}}' to '${${_name}}'")
    endif()
  endforeach()
  # What was not there before, and would speak to the parent's own targets.
  get_cmake_property(_now VARIABLES)
  foreach(_name IN LISTS _now)
    if(_name MATCHES "^(BUILD_|CMAKE_)" AND NOT _name IN_LIST _names AND NOT _name MATCHES "^CMAKE_(HAVE|INSTALL|MATCH|PROJECT)_")
      message(SEND_ERROR "add_subdirectory set ${_name} to '${${_name}}'")
    endif()
  endforeach()
  foreach(_property IN LISTS watched_properties)
    get_directory_property(_value ${_property})
    if(NOT "${_value}" STREQUAL "${_property_${_property}}")
      message(SEND_ERROR "add_subdirectory turned the folder's ${_property} from '${_property_${_property}}' to '${_value}'")
    endif()
  endforeach()
endmacro()

# require(<target> <property> <value>)
function(require target property value)
  get_target_property(actual ${target} ${property})
  if(NOT "${actual}" STREQUAL "${value}")
    message(SEND_ERROR "${property} of ${target} must be '${value}'; got '${actual}'")
  endif()
endfunction()
