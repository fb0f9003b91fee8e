//! The stylesheet and the script, compiled into the program.

use axum::response::IntoResponse;
use hyper::header::CONTENT_TYPE;

pub(crate) const STYLE_PATH: &str = "/assets/style.css";
pub(crate) const SCRIPT_PATH: &str = "/assets/console.js";

pub(crate) async fn style() -> impl IntoResponse {
    ([(CONTENT_TYPE, "text/css; charset=utf-8")], include_str!("../../assets/style.css"))
}

pub(crate) async fn script() -> impl IntoResponse {
    ([(CONTENT_TYPE, "text/javascript; charset=utf-8")], include_str!("../../assets/console.js"))
}
