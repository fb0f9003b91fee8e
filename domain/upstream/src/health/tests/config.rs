use crate::health::*;

#[test]
fn config_has_defaults_of_the_seed_and_rejects_zero() {
    let read = |text: &str| serde_json::from_str::<OracleHealthConfig>(text);
    let seeds = r#"{"health_check_interval_seconds":60,"failure_threshold":3,"recovery_threshold":2,
        "circuit_breaker_enabled":true,"circuit_breaker_reset_seconds":30}"#;
    assert_eq!(read("{}").expect("all has a default"), read(seeds).expect("valid settings"));
    for refused in [r#"{"failure_threshold":0}"#, r#"{"failure_limit":1}"#] {
        read(refused).expect_err(refused);
    }
}
