//! Whether everything is in order, as an operator asks it.

use crate::on_every_store;
use domain::account::Scope;
use http::Method;

on_every_store! {
    async fn operators_ask_a_node_whether_everything_is_in_order(world) {
        let found = world.ask_as(&world.operator_key, Method::GET, "/v1/doctor", None).await.expect(200);
        assert_eq!(found["ok"], true, "{found}");
        assert_eq!((&found["findings"][0]["check"], &found["findings"][0]["level"]), (&"loops".into(), &"ok".into()));
        let again = world.ask_as(&world.operator_key, Method::GET, "/v1/doctor", None).await.expect(200);
        assert_eq!(again["at"], found["at"], "what was found a moment ago is told again");
    }

    async fn what_the_doctor_finds_is_the_operators(world) {
        let key = world.key_with(&Scope::OF_ACCOUNT).await;
        world.ask_as(&key, Method::GET, "/v1/doctor", None).await.expect_problem(403, "scope_missing");
        let platform = world.platform_with(&Scope::ALL).await;
        world.ask_as(&platform, Method::GET, "/v1/doctor", None).await.expect_problem(403, "scope_missing");
    }
}
