# cmake -DOUT=FILE -DCOMMAND=tare;manual -P page.cmake: what a command prints, as a file.
get_filename_component(folder ${OUT} DIRECTORY)
file(MAKE_DIRECTORY ${folder})
execute_process(COMMAND ${COMMAND} OUTPUT_FILE ${OUT} COMMAND_ERROR_IS_FATAL ANY)
