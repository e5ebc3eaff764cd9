use contract::UserView;
use domain::session::User;

pub(crate) fn user(user: &User) -> UserView {
    UserView {
        id: user.id,
        name: user.name.clone(),
        role: user.role,
        accounts: user.accounts.clone(),
        created_at: user.created_at,
    }
}
