# Installs the public headers: copies adjoint.h, and every header that it includes directly or indirectly, from the
# source folders. A header that adjoint.h does not reach is internal and is not installed, except for those that adjoint.h
# leaves to the few programs that need them. The script reads ADJOINT_SOURCE_DIR, ADJOINT_INCLUDE_DIR and ADJOINT_DATA.

cmake_minimum_required(VERSION 3.25)

set(pending adjoint.h)
if(ADJOINT_DATA)
  list(APPEND pending data/log_record.h)
endif()
set(installed)
while(pending)
  list(POP_FRONT pending header)
  list(APPEND installed ${header})
  cmake_path(GET header PARENT_PATH folder)
  file(INSTALL DESTINATION "${ADJOINT_INCLUDE_DIR}/adjoint/${folder}" TYPE FILE FILES "${ADJOINT_SOURCE_DIR}/${header}")

  file(STRINGS "${ADJOINT_SOURCE_DIR}/${header}" includes REGEX "^# *include +<adjoint/[^>]+>")
  foreach(line IN LISTS includes)
    string(REGEX REPLACE "^# *include +<adjoint/([^>]+)>.*" "\\1" included "${line}")
    if(NOT included IN_LIST installed AND NOT included IN_LIST pending AND (ADJOINT_DATA OR NOT included MATCHES "^data/"))
      list(APPEND pending ${included})
    endif()
  endforeach()
endwhile()
