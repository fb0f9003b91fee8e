mod commit_loop;
mod logger;
mod logger_handle_queue;
